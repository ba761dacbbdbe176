"""Telling people that a grade is there: by email, or by a request to a server of the department's. Optional."""
