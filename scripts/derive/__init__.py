"""Small tables of derived figures from public measurements, one file per source."""
