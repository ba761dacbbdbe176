"""A room in which a class works: the settings of the local JupyterLab server."""
