import Foundation
import Records

/// What a predicate asks, as far as the relay can be asked it.
enum PredicateForm: Sendable {
    case all
    case none
    case filters([Query.Filter])
    /// Why not, in a sentence for the program's author.
    case refused(String)

    init(_ predicate: NSPredicate) {
        if predicate == NSPredicate(value: true) {
            self = .all
        } else if predicate == NSPredicate(value: false) {
            self = .none
        } else {
            self = Self.written(predicate)
        }
    }
}

#if canImport(Darwin)
    extension PredicateForm {
        /// Apple's predicates print themselves in the format language.
        private static func written(_ predicate: NSPredicate) -> PredicateForm {
            PredicateParser.parse(predicate.predicateFormat, [])
        }
    }

    extension NSSortDescriptor {
        /// The name that the descriptor was made with.
        var fieldName: String? { key }
    }
#else
    extension PredicateForm {
        /// Linux has no predicates by format, so ours are blocks, which hand out what they were made of when they meet a
        /// `PredicateProbe`.
        private static func written(_ predicate: NSPredicate) -> PredicateForm {
            let probe = PredicateProbe()
            _ = predicate.evaluate(with: probe)
            return probe.form ?? .refused("A predicate made of a block cannot be sent. Use a format or a value.")
        }
    }

    /// Draws from a predicate what it was made of.
    final class PredicateProbe: NSObject {
        var form: PredicateForm?
    }

    extension NSPredicate {
        /// A predicate for `CKQuery`, in the format language; comparisons of system fields, joined by `AND`.
        ///
        /// It is for queries only: in memory it matches nothing.
        ///
        /// - Parameters:
        ///   - format: Such as `"modificationDate > %@"`.
        ///   - arguments: What stands for each `%`.
        public convenience init(format: String, _ arguments: Any...) {
            self.init(format: format, argumentArray: arguments)
        }

        /// A predicate for `CKQuery`, in the format language; comparisons of system fields, joined by `AND`.
        ///
        /// It is for queries only: in memory it matches nothing.
        ///
        /// - Parameters:
        ///   - format: Such as `"modificationDate > %@"`.
        ///   - arguments: What stands for each `%`.
        public convenience init(format: String, argumentArray arguments: [Any]?) {
            let form = PredicateParser.parse(format, arguments ?? [])
            self.init { object, _ in
                if let probe = object as? PredicateProbe { probe.form = form }
                return false
            }
        }
    }

    extension NSSortDescriptor {
        /// A sort order for `CKQuery` by a field's name.
        ///
        /// - Parameters:
        ///   - key: The field.
        ///   - ascending: Smallest first.
        public convenience init(key: String?, ascending: Bool) {
            self.init(keyPath: \FieldNames[key ?? ""], ascending: ascending)
        }

        /// The name that the descriptor was made with.
        var fieldName: String? { (FieldNames()[keyPath: keyPath as AnyKeyPath] as? FieldNames.Name)?.text }
    }

    /// Carries a field's name through a key path: reading the path gives the name back.
    struct FieldNames {
        struct Name: Comparable {
            var text: String
            static func < (a: Name, b: Name) -> Bool { a.text < b.text }
        }

        subscript(name: String) -> Name { Name(text: name) }
    }
#endif
