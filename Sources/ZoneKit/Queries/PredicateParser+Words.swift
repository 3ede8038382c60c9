import Records

/// Full-text searches.
extension PredicateParser {
    /// Parses `CONTAINS 'words'` of the whole record, or `TOKENMATCHES 'words'` of the record or a field.
    mutating func words(in field: Query.Field) throws(Refusal) -> Query.Filter {
        let sign = tokens.popFirst()
        guard sign == .word("TOKENMATCHES") || (sign == .word("CONTAINS") && field == .anySearchable) else {
            throw Refusal(why: "a full-text search needs CONTAINS or TOKENMATCHES")
        }
        // Full-text searches always ignore case and diacritics.
        _ = takeOptions()
        guard let text = try value() as? String else { throw Refusal(why: "a full-text search needs a string") }
        return Query.Filter(field, .containsAllTokens, [.string(text)])
    }

    /// Whether the next tokens are `tokenize(words, 'cdl')`, possibly after `ALL` or `ANY`.
    var asksForWords: Bool {
        tokens.dropFirst().prefix(1).contains { $0 == .word("tokenize") || $0 == .word("tokenize:using:") }
    }

    /// Parses `tokenize(words, 'cdl') IN allTokens`, the form in which CloudKit prints `self CONTAINS`.
    mutating func words(by comparator: Query.Comparator) throws(Refusal) -> Query.Filter {
        tokens.removeFirst()
        let mistake = Refusal(why: "a full-text search has the form tokenize(words, 'cdl') IN allTokens")
        guard tokens.popFirst() == .sign("("), let text = try value() as? String, tokens.popFirst() == .sign(","),
            try value() is String, tokens.popFirst() == .sign(")"), tokens.popFirst() == .word("IN")
        else { throw mistake }
        guard [.word("allTokens"), .word("SELF")].contains(tokens.popFirst()) else { throw mistake }
        return Query.Filter(.anySearchable, comparator, [.string(text)])
    }
}
