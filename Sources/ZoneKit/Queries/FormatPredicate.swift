#if !canImport(Darwin)
    public import Foundation
    import Synchronization

    /// Gives `NSPredicate` its initializers by format, which Foundation's own ones here are not available for.
    ///
    /// An initializer of a class cannot give an object of a subclass, but one that comes from a protocol can: so what is made
    /// knows its format, and can be compared and printed.
    public protocol CKPredicateFormatting {}

    extension NSPredicate: CKPredicateFormatting {}

    extension CKPredicateFormatting where Self == NSPredicate {
        /// A predicate in the format language: for `CKQuery`, comparisons of one field each, joined by `AND`.
        ///
        /// In memory it decides about a `CKRecord` or a dictionary of values, there with `OR` and all comparisons of text
        /// too. Two are equal when they ask the same.
        ///
        /// - Parameters:
        ///   - format: Such as `"modificationDate > %@"`.
        ///   - arguments: What stands for each `%`.
        public init(format: String, _ arguments: Any...) {
            self = FormatPredicate(asking: format, arguments)
        }

        /// A predicate in the format language: for `CKQuery`, comparisons of one field each, joined by `AND`.
        ///
        /// In memory it decides about a `CKRecord` or a dictionary of values, there with `OR` and all comparisons of text
        /// too. Two are equal when they ask the same.
        ///
        /// - Parameters:
        ///   - format: Such as `"modificationDate > %@"`.
        ///   - arguments: What stands for each `%`.
        public init(format: String, argumentArray arguments: [Any]?) {
            self = FormatPredicate(asking: format, arguments ?? [])
        }
    }

    extension CKPredicateFormatting where Self: NSPredicate {
        /// Nothing: one that comes out of an archive may be used at once.
        public func allowEvaluation() {}
    }

    /// A predicate that knows what it asks.
    final class FormatPredicate: NSPredicate {
        private typealias Reading = Result<PredicateNode, PredicateParser.Refusal>

        private let format: String
        private let arguments: [Any]
        private let first: Reading
        /// It asks for `now()`, which is another moment each time that it is sent or evaluated.
        private let isOfNow: Bool
        private let text: String

        init(asking format: String, _ arguments: [Any]) {
            self.format = format
            first = PredicateParser.parse(format, arguments)
            let tokens = PredicateToken.tokens(of: format) ?? []
            isOfNow = zip(tokens, tokens.dropFirst()).contains { $0 == .word("now") && $1 == .sign("(") }
            self.arguments = isOfNow ? arguments : []
            text = isOfNow ? format : (try? first.get())?.phrase ?? format
            // Not by a value: by that it would equal other predicates of Foundation's.
            super.init { _, _ in false }
        }

        private var reading: Reading { isOfNow ? PredicateParser.parse(format, arguments) : first }
        /// What to send for it.
        var form: PredicateForm { PredicateForm(format, reading) }
        /// `nil` where the format cannot be read: then it holds for nothing.
        private var node: PredicateNode? { try? reading.get() }

        override func evaluate(with object: Any?, substitutionVariables bindings: [String: Any]?) -> Bool {
            guard let node else { return false }
            if let record = object as? CKRecord { return node.holds(for: record.state.withLock { $0 }) }
            guard let values = object as? [String: Any] else { return false }
            return node.holds(for: DictionarySubject(values: values))
        }

        override func copy(with zone: NSZone? = nil) -> Any { self }

        override func isEqual(_ object: Any?) -> Bool {
            guard let other = object as? FormatPredicate else { return false }
            if isOfNow { return text == other.text && (arguments as NSArray).isEqual(to: other.arguments) }
            return node == other.node && (node != nil || text == other.text)
        }

        override var hash: Int { text.hashValue }
        override var predicateFormat: String { text }
        override var description: String { text }
    }
#endif
