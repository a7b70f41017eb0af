"""What finished runs show: figures."""
