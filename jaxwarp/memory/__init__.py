"""Arrays in memory: regions, the scopes that own them, and exchange with other libraries."""
