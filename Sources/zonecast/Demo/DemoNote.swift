import Foundation
import ZoneKit
import ZoneMirror

/// A note in the clients' mirrors.
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
    /// Identifies a version among all notes.
    var version: String { "\(name) \(done) \(title)" }
    /// The text for the log.
    var words: String { "Note/\(name) \"\(title)\"\(done ? " ☑" : "")" }
}

/// A post on the public board.
struct DemoPost: SyncedRecord, Equatable {
    var id = RecordName()
    var text = ""
    /// Set when the post is hidden; a deletion would not be visible to polls.
    var deletedAt: Date?

    static var entityName: String { "Board" }
    static func describe(_ entity: inout Entity) { entity.softDeletion = "deletedAt" }

    init() {}

    init(name: String, text: String) {
        id = RecordName(name)
        self.text = text
    }
}

/// The permission of a participant of a shared list.
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

/// A shared list in one client's mirror.
struct DemoList: Equatable, Sendable {
    var title: String
    var isMine: Bool
    /// The participants (with a question mark until they accept), or the owner.
    var people: [String]
    /// The participants' permission; for a participant, this client's own.
    var right: DemoRight
    var notes: [DemoNote]

    /// The text for the log.
    var words: String {
        guard !isMine || !people.isEmpty else { return "\"\(title)\" without participants" }
        return "\"\(title)\" \(isMine ? "with" : "of") \(people.joined(separator: ", ")), \(right.words)"
    }
}

/// The contents of one client's files, at one moment.
struct DemoContents: Equatable, Sendable {
    /// The user's own notes that are not shared.
    var notes: [DemoNote] = []
    var lists: [DemoList] = []
    var posts: [String] = []
    /// Changes that the relay has not confirmed.
    var pending = 0
    /// The position of the change token of the user's own zone.
    var token = "–"

    /// All notes, own and shared.
    var all: [DemoNote] { (notes + lists.flatMap(\.notes)).sorted { $0.name < $1.name } }
}
