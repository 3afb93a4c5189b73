"""Results folders: typed records and arrays, written whole or not at all; packs and merges."""
