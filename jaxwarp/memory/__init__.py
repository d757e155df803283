"""What an array is in memory: regions, scopes that own them, exchange with other libraries."""
