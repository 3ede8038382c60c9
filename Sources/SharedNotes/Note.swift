import ZoneMirror

/// A note; sharing or deleting it includes its memos.
struct Note: SyncedRecord, Equatable {
    var id = RecordName()
    var title = ""
    var memos = ToMany<Memo>(inverse: "note", deleteRule: .cascade)

    init() {}

    init(title: String) { self.title = title }

    /// A share of a note has the note's title.
    static func describe(_ entity: inout Entity) { entity.displayAttribute = "title" }
}

/// A line on a note, written by any participant with write permission.
struct Memo: SyncedRecord, Equatable {
    var id = RecordName()
    var text = ""
    var note = ToOne<Note>(inverse: "memos")

    init() {}

    init(_ text: String, on note: Note) {
        self.text = text
        self.note = ToOne(note)
    }
}
