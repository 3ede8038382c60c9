/// A word or sign of the predicate format language.
enum PredicateToken: Equatable {
    /// A field's name, or a keyword in capitals.
    case word(String)
    case sign(String)
    case text(String)
    case number(String)
    /// `K` for a field's name, any other letter for a value.
    case argument(String)

    private static let language: Set<String> = [
        "AND", "OR", "NOT", "IN", "BETWEEN", "CONTAINS", "BEGINSWITH", "ENDSWITH", "LIKE", "MATCHES", "TOKENMATCHES",
        "ANY", "SOME", "ALL", "NONE", "TRUEPREDICATE", "FALSEPREDICATE", "SELF", "CAST", "TRUE", "YES", "FALSE", "NO",
        "NULL", "NIL",
    ]

    /// Returns the tokens of a format; `nil` for an unterminated string or an unknown character.
    static func tokens(of format: String) -> [PredicateToken]? {
        var rest = Substring(format)
        var tokens: [PredicateToken] = []
        while let first = rest.first {
            if first.isWhitespace {
                rest.removeFirst()
            } else if let token = next(of: &rest) {
                tokens.append(token)
            } else {
                return nil
            }
        }
        return tokens
    }

    private static func next(of rest: inout Substring) -> PredicateToken? {
        guard let first = rest.first else { return nil }
        switch first {
        case "'", "\"":
            return quoted(of: &rest, by: first)
        case "%":
            rest.removeFirst()
            if rest.first == "@" {
                rest.removeFirst()
                return .argument("@")
            }
            let kind = take(&rest) { $0.isLetter }
            return kind.isEmpty ? nil : .argument(kind)
        case "(", ")", "{", "}", ",":
            rest.removeFirst()
            return .sign(String(first))
        case "[":
            // Options after an operator: case-insensitive, diacritic-insensitive.
            let options = take(&rest) { $0 != "]" }
            guard rest.popFirst() == "]" else { return nil }
            return .sign(options.lowercased() + "]")
        default: break
        }
        if first.isNumber || first == "-" { return .number(take(&rest) { $0.isNumber || ".-+eE".contains($0) }) }
        if first.isLetter || first == "_" {
            let word = take(&rest) { $0.isLetter || $0.isNumber || "_.:".contains($0) }
            return .word(language.contains(word.uppercased()) ? word.uppercased() : word)
        }
        let sign = take(&rest) { "=<>!&|".contains($0) }
        return sign.isEmpty ? nil : .sign(sign)
    }

    private static func quoted(of rest: inout Substring, by quote: Character) -> PredicateToken? {
        rest.removeFirst()
        var text = ""
        while let character = rest.popFirst() {
            if character == quote { return .text(text) }
            if character == "\\", let escaped = rest.popFirst() { text.append(escaped) } else { text.append(character) }
        }
        return nil
    }

    private static func take(_ rest: inout Substring, while isPart: (Character) -> Bool) -> String {
        let part = rest.prefix(while: isPart)
        rest = rest.dropFirst(part.count)
        return String(part)
    }
}
