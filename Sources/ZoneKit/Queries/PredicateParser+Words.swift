import Records

/// Searches for words.
extension PredicateParser {
    /// `CONTAINS 'words'` of everything, `TOKENMATCHES 'words'` of that or of a field.
    mutating func words(in field: Query.Field) throws(Refusal) -> Query.Filter {
        let sign = tokens.popFirst()
        guard sign == .word("TOKENMATCHES") || (sign == .word("CONTAINS") && field == .anySearchable) else {
            throw Refusal(why: "words are looked for by CONTAINS or TOKENMATCHES")
        }
        // Words are without case and diacritics anyhow.
        _ = takeOptions()
        guard let text = try value() as? String else { throw Refusal(why: "words are looked for by a text") }
        return Query.Filter(field, .containsAllTokens, [.string(text)])
    }

    /// `tokenize(words, 'cdl')`, perhaps behind `ALL` or `ANY`.
    var asksForWords: Bool {
        tokens.dropFirst().prefix(1).contains { $0 == .word("tokenize") || $0 == .word("tokenize:using:") }
    }

    /// `tokenize(words, 'cdl') IN allTokens`, as CloudKit itself writes what is asked by `self CONTAINS`.
    mutating func words(by comparator: Query.Comparator) throws(Refusal) -> Query.Filter {
        tokens.removeFirst()
        let mistake = Refusal(why: "words are looked for by tokenize(words, 'cdl') IN allTokens")
        guard tokens.popFirst() == .sign("("), let text = try value() as? String, tokens.popFirst() == .sign(","),
            try value() is String, tokens.popFirst() == .sign(")"), tokens.popFirst() == .word("IN")
        else { throw mistake }
        guard [.word("allTokens"), .word("SELF")].contains(tokens.popFirst()) else { throw mistake }
        return Query.Filter(.anySearchable, comparator, [.string(text)])
    }
}
