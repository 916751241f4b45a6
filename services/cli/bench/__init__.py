"""`headway bench`: a load generator with one ruler for every server."""
