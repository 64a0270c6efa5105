"""Runs become one page to look at: an HTML file that needs no network, or a page that follows a run."""
