"""Modules over the core: the loss, its distributed and accumulated forms, variants for reproduction."""
