// The first type of this module arrives with the next commit.
