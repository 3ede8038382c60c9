import Records
import RelayCore

/// What an index finds records by.
enum IndexTarget: Hashable, Sendable {
    /// The field's value; each member of a list.
    case value(Query.Field)
    /// The words of one SEARCHABLE field.
    case words(String)
    /// The words of all SEARCHABLE fields of the type.
    case allWords

    /// Its form in the file; field names hold neither blanks nor stars.
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

    /// The index that serves a filter.
    init(_ filter: Query.Filter) {
        switch filter.field {
        case .anySearchable: self = .allWords
        case .own(let name) where filter.comparator.looksForTokens: self = .words(name)
        default: self = .value(filter.field)
        }
    }

    /// The type's own fields that it looks at.
    func fieldNames(in type: RecordType) -> [String] {
        switch self {
        case .value(.own(let name)), .words(let name): [name]
        case .value: []
        case .allWords: type.searchableFields
        }
    }

    /// The field that a person is told of.
    var fieldName: String {
        switch self {
        case .value(let field): field.name
        case .words(let name): name
        case .allWords: "self"
        }
    }

    /// The keys that a live record is entered under.
    ///
    /// A scalar has one always, `absent` if need be, so that such an index holds every record of its type.
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

/// An index as the file has it.
struct FieldIndex: Hashable, Sendable {
    var number: Int64
    /// The record type's number.
    var type: Int64
    var target: IndexTarget
    /// Records up to this change are entered.
    var builtTo: UInt64
    /// Records after this change are entered as they are written.
    var goal: UInt64

    /// Whether it holds every record of its type.
    var isReady: Bool { builtTo >= goal }
}

/// An index that a query would have used.
struct WantedIndex: Hashable, Sendable {
    var recordType: String
    var target: IndexTarget
}
