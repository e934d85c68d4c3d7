"""Parts of pages: filters, selections, charts and rows. None of them knows a page."""
