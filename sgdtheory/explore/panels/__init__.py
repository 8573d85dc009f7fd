"""One module a panel of the page, or several that belong together; `spec` says what a panel is."""
