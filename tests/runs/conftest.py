"""The same trained runs as for the pages made of them."""

from tests.reporting.conftest import hostile_images, report, trained  # noqa: F401
