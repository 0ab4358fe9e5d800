"""What every file format shares: how a file becomes a document, and a document what its schema says."""
