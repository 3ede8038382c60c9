import Foundation
import ZoneKit
import ZoneMirror

/// A note, as the clients' mirrors hold it.
struct DemoNote: SyncedRecord, Equatable {
    var id = RecordName()
    var title = ""
    var done = false

    static var entityName: String { "Note" }

    init() {}

    init(name: String, title: String, done: Bool = false) {
        id = RecordName(name)
        self.title = title
        self.done = done
    }

    var name: String { id.text }
    /// Tells the versions of all notes apart.
    var version: String { "\(name) \(done) \(title)" }
    /// As the log has it.
    var words: String { "Note/\(name) \"\(title)\"\(done ? " ☑" : "")" }
}

/// A post on the public board.
struct DemoPost: SyncedRecord, Equatable {
    var id = RecordName()
    var text = ""
    /// Set when it is hidden: a deletion would not travel.
    var deletedAt: Date?

    static var entityName: String { "Board" }
    static func describe(_ entity: inout Entity) { entity.softDeletion = "deletedAt" }

    init() {}

    init(name: String, text: String) {
        id = RecordName(name)
        self.text = text
    }
}

/// What a participant may do with a shared list.
enum DemoRight: String, Sendable {
    case none = "none"
    case readOnly = "r/o"
    case readWrite = "r/w"

    init(_ permission: CKShare.ParticipantPermission) {
        self =
            switch permission {
            case .none, .unknown: .none
            case .readOnly: .readOnly
            case .readWrite: .readWrite
            }
    }

    var permission: CKShare.ParticipantPermission {
        switch self {
        case .none: .none
        case .readOnly: .readOnly
        case .readWrite: .readWrite
        }
    }

    var words: String {
        switch self {
        case .none: "no access"
        case .readOnly: "read only"
        case .readWrite: "read and write"
        }
    }
}

/// A shared list as one client has it.
struct DemoList: Equatable, Sendable {
    var title: String
    var isMine: Bool
    /// With whom (a question mark behind those who have not accepted yet), or whose.
    var people: [String]
    /// What the participants may do; in a client of theirs, what this one may.
    var right: DemoRight
    var notes: [DemoNote]

    /// As the log has it.
    var words: String {
        guard !isMine || !people.isEmpty else { return "\"\(title)\" with nobody" }
        return "\"\(title)\" \(isMine ? "with" : "of") \(people.joined(separator: ", ")), \(right.words)"
    }
}

/// All that one client's files hold, at one moment.
struct DemoHoldings: Equatable, Sendable {
    /// Its own notes that are not shared.
    var notes: [DemoNote] = []
    var lists: [DemoList] = []
    var posts: [String] = []
    /// Changes that the relay has not confirmed.
    var pending = 0
    /// How far the feed of the user's own zone has been read: a number for people to compare.
    var token = "–"

    /// All notes, whosever they are.
    var all: [DemoNote] { (notes + lists.flatMap(\.notes)).sorted { $0.name < $1.name } }
}
