import ZoneMirror

/// A note; its memos go where it goes.
struct Note: SyncedRecord, Equatable {
    var id = RecordName()
    var title = ""
    var memos = ToMany<Memo>(inverse: "note", deleteRule: .cascade)

    init() {}

    init(title: String) { self.title = title }

    /// A share of a note is called as the note is.
    static func describe(_ entity: inout Entity) { entity.displayAttribute = "title" }
}

/// A line written on a note, by whoever may.
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
