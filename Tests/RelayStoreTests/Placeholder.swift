// The first test of this module arrives with the next commit.
