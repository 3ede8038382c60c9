import Foundation
import ZoneMirror

/// A note in a folder, with tags.
struct Note: SyncedRecord, Equatable {
    var id = RecordName()
    var title = ""
    var body: String?
    var done = false
    var stars = 0
    var weight = 0.0
    var at: Date?
    var photo: Data?
    var link: URL?
    var labels: [String] = []
    var folder = ToOne<Folder>(inverse: "notes")
    var tags = ToMany<Tag>(inverse: "notes")

    init() {}

    init(id: RecordName = RecordName(), title: String, done: Bool = false) {
        self.id = id
        self.title = title
        self.done = done
    }

    static func describe(_ entity: inout Entity) {
        entity.attribute("title") { $0.preservesValueOnDeletion = true }
    }
}

struct Folder: SyncedRecord, Equatable {
    var id = RecordName()
    var name = ""
    var notes = ToMany<Note>(inverse: "folder")

    init() {}

    init(id: RecordName = RecordName(), name: String) {
        self.id = id
        self.name = name
    }
}

struct Tag: SyncedRecord, Equatable {
    var id = RecordName()
    var word = ""
    var notes = ToMany<Note>(inverse: "tags")

    init() {}

    init(word: String) { self.word = word }
    init(id: RecordName) { self.id = id }
}

let notesModel = MirrorModel(Note.self, Folder.self, Tag.self)
