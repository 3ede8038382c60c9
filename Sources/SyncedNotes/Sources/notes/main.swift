import Foundation
import NotesModel
import ZoneKit

// notes FOLDER list | add TITLE | toggle TITLE | watch
let words = CommandLine.arguments.dropFirst()
guard words.count >= 2, let folder = words.first else {
    print("notes FOLDER list | add TITLE | toggle TITLE | watch")
    exit(2)
}
let title = words.dropFirst(2).joined(separator: " ")

// The relay and the user are in ZONECAST_URL and ZONECAST_DEV_USER; each folder is a device.
let cloud = CKContainer(identifier: "iCloud.org.example.notes")
let notes = try await Notes(cloud, folder: URL(fileURLWithPath: folder, isDirectory: true))

func show(_ list: [Note]) {
    for note in list { print(note.done ? "[x]" : "[ ]", note.title) }
}

switch words.dropFirst().first {
case "add":
    try notes.add(title)
case "toggle":
    try await notes.update()
    for note in try notes.all() where note.title == title { try notes.toggle(note) }
case "watch":
    for await list in notes.changes() {
        print("---")
        show(list)
    }
default:
    break
}
// Without a network, the notes are those of the last sync, and changes are sent by the next run.
do { try await notes.update() } catch { print("Not in sync yet:", error.localizedDescription) }
show(try notes.all())
await notes.close()
