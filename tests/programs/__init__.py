"""Small programs that tests run as children."""
