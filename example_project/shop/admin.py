from django.contrib import admin

from .models import Mail, Order, Payment, PriceList, Product, Receipt, StockReport

admin.site.register([Mail, Payment, PriceList, Product, Receipt, StockReport])


@admin.register(Order)
class OrderAdmin(admin.ModelAdmin):
    list_display = ["id", "email", "product", "quantity", "placed_at"]
    list_select_related = ["product"]
