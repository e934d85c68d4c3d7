"""What a monitoring system asks over HTTP: metrics, and whether all is well."""
