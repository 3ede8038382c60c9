#if !canImport(Darwin)
    public import Foundation
    import Synchronization

    /// Adds initializers with a format to `NSPredicate`, because those of Foundation are not available on Linux.
    ///
    /// An initializer of a class cannot return a subclass, but a protocol's initializer can. The resulting object
    /// therefore stores its format, and can be compared and printed.
    public protocol CKPredicateFormatting {}

    extension NSPredicate: CKPredicateFormatting {}

    extension CKPredicateFormatting where Self == NSPredicate {
        /// Creates a predicate from a format: for `CKQuery`, comparisons of one field each, joined by `AND`.
        ///
        /// In memory, the predicate can be evaluated with a `CKRecord` or a dictionary of values, and also supports
        /// `OR` and all text comparisons. Predicates are equal if they have the same conditions.
        ///
        /// - Parameters:
        ///   - format: The format, such as `"modificationDate > %@"`.
        ///   - arguments: The values of the placeholders.
        public init(format: String, _ arguments: Any...) {
            self = FormatPredicate(parsing: format, arguments)
        }

        /// Creates a predicate from a format: for `CKQuery`, comparisons of one field each, joined by `AND`.
        ///
        /// In memory, the predicate can be evaluated with a `CKRecord` or a dictionary of values, and also supports
        /// `OR` and all text comparisons. Predicates are equal if they have the same conditions.
        ///
        /// - Parameters:
        ///   - format: The format, such as `"modificationDate > %@"`.
        ///   - arguments: The values of the placeholders.
        public init(format: String, argumentArray arguments: [Any]?) {
            self = FormatPredicate(parsing: format, arguments ?? [])
        }
    }

    extension CKPredicateFormatting where Self: NSPredicate {
        /// Has no effect: a decoded predicate can be evaluated at once.
        public func allowEvaluation() {}
    }

    /// A predicate that stores its conditions.
    final class FormatPredicate: NSPredicate {
        private typealias Reading = Result<PredicateNode, PredicateParser.Refusal>

        private let format: String
        private let arguments: [Any]
        private let initialResult: Reading
        /// Whether the format contains `now()`, which is parsed again each time the predicate is sent or evaluated.
        private let usesCurrentDate: Bool
        private let text: String

        init(parsing format: String, _ arguments: [Any]) {
            self.format = format
            initialResult = PredicateParser.parse(format, arguments)
            let tokens = PredicateToken.tokens(of: format) ?? []
            usesCurrentDate = zip(tokens, tokens.dropFirst()).contains { $0 == .word("now") && $1 == .sign("(") }
            self.arguments = usesCurrentDate ? arguments : []
            text = usesCurrentDate ? format : (try? initialResult.get())?.phrase ?? format
            // Not with a value, because the predicate would then equal other predicates of Foundation.
            super.init { _, _ in false }
        }

        private var parseResult: Reading { usesCurrentDate ? PredicateParser.parse(format, arguments) : initialResult }
        /// The conditions to send.
        var form: PredicateConditions { PredicateConditions(format, parseResult) }
        /// `nil` if the format cannot be parsed; the predicate then never matches.
        private var node: PredicateNode? { try? parseResult.get() }

        override func evaluate(with object: Any?, substitutionVariables bindings: [String: Any]?) -> Bool {
            guard let node else { return false }
            if let record = object as? CKRecord { return node.holds(for: record.state.withLock { $0 }) }
            guard let values = object as? [String: Any] else { return false }
            return node.holds(for: DictionarySubject(values: values))
        }

        override func copy(with zone: NSZone? = nil) -> Any { self }

        override func isEqual(_ object: Any?) -> Bool {
            guard let other = object as? FormatPredicate else { return false }
            if usesCurrentDate { return text == other.text && (arguments as NSArray).isEqual(to: other.arguments) }
            return node == other.node && (node != nil || text == other.text)
        }

        override var hash: Int { text.hashValue }
        override var predicateFormat: String { text }
        override var description: String { text }
    }

    // On Apple platforms these types conform to `CVarArg` through their Objective-C classes, so apps write `date as
    // CVarArg` in predicate arguments. Here predicates accept any value, and the conformances only make the casts
    // compile. `String(format:)` prints an object's address.

    extension NSObject: @retroactive CVarArg {
        /// The object's address.
        public var _cVarArgEncoding: [Int] { [Int(bitPattern: Unmanaged.passUnretained(self).toOpaque())] }
    }

    extension Date: @retroactive CVarArg {
        /// A placeholder that cannot be printed.
        public var _cVarArgEncoding: [Int] { [0] }
    }

    extension UUID: @retroactive CVarArg {
        /// A placeholder that cannot be printed.
        public var _cVarArgEncoding: [Int] { [0] }
    }

    extension Data: @retroactive CVarArg {
        /// A placeholder that cannot be printed.
        public var _cVarArgEncoding: [Int] { [0] }
    }

    extension URL: @retroactive CVarArg {
        /// A placeholder that cannot be printed.
        public var _cVarArgEncoding: [Int] { [0] }
    }
#endif
