import GRDBSQLite
import Records
import RelayCore

/// What an index contains.
enum IndexTarget: Hashable, Sendable {
    /// The field's value, or each member of a list.
    case value(Query.Field)
    /// The words of one SEARCHABLE field.
    case words(String)
    /// The words of all SEARCHABLE fields of the type.
    case allWords

    /// The form stored in the file; field names contain neither spaces nor asterisks.
    var text: String {
        switch self {
        case .value(let field): field.name
        case .words(let name): name + " words"
        case .allWords: Self.allWordsText
        }
    }

    init(text: String) {
        if text == Self.allWordsText {
            self = .allWords
        } else if text.hasSuffix(" words") {
            self = .words(String(text.dropLast(6)))
        } else if let system = Query.SystemField(rawValue: text) {
            self = .value(.system(system))
        } else {
            self = .value(.own(text))
        }
    }

    private static let allWordsText = "* words"

    /// The index for a filter.
    init(_ filter: Query.Filter) {
        switch filter.field {
        case .anySearchable: self = .allWords
        case .own(let name) where filter.comparator.looksForTokens: self = .words(name)
        default: self = .value(filter.field)
        }
    }

    /// Returns the type's own fields that the index covers.
    func fieldNames(in type: RecordType) -> [String] {
        switch self {
        case .value(.own(let name)), .words(let name): [name]
        case .value: []
        case .allWords: type.searchableFields
        }
    }

    /// The name of the field in error messages.
    var fieldName: String {
        switch self {
        case .value(let field): field.name
        case .words(let name): name
        case .allWords: "self"
        }
    }

    /// Returns the keys of a live record.
    ///
    /// A scalar field always has one, `absent` if necessary, so that its index contains every record of the type.
    func keys(of values: QueryValues, in type: RecordType) -> Set<QueryKey> {
        switch self {
        case .value(.own(let name)):
            if case .list? = type.fields[name]?.type { return values.memberKeys(of: name) }
            return [values.key(of: .own(name))]
        case .value(let field): return [values.key(of: field)]
        case .words, .allWords: return Set(values.tokens(of: fieldNames(in: type)).map { .text($0) })
        }
    }
}

/// An index as stored in the file.
struct FieldIndex: Hashable, Sendable {
    var number: Int64
    /// The record type's number.
    var type: Int64
    var target: IndexTarget
    /// Records up to this change have been entered.
    var builtTo: UInt64
    /// Records after this change are entered as they are written.
    var goal: UInt64

    /// Whether the index contains every record of its type.
    var isReady: Bool { builtTo >= goal }
}

/// An index that a query needs.
struct WantedIndex: Hashable, Sendable {
    var recordType: String
    var target: IndexTarget
}

extension SQL {
    /// Binds a key in the form stored in `field_value`, in which SQLite's order is the order of the keys.
    ///
    /// `absent` is stored as the number that is less than all others.
    func bind(_ index: Int32, _ key: QueryKey) {
        switch key {
        case .absent: bind(index, -Double.infinity)
        case .number(let number): bind(index, number)
        case .real(let number): bind(index, number)
        case .text(let text): bind(index, text)
        case .bytes(let bytes): bind(index, blob: bytes)
        }
    }

    /// Reads a key.
    func key(_ column: Int32) -> QueryKey {
        switch valueType(column) {
        case SQLITE_INTEGER: return .number(int(column))
        case SQLITE_FLOAT:
            let number = real(column)
            return number == -Double.infinity ? .absent : .real(number)
        case SQLITE_BLOB: return .bytes(blob(column))
        default: return .text(text(column))
        }
    }
}
