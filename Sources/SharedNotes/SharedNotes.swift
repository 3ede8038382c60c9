import ArgumentParser
import Foundation
import ZoneKit
import ZoneMirror

/// `shared-notes`: the example app at a command line; each folder is a device.
///
///     zonecast serve --dev --data ./relay &
///     shared-notes --user alice --folder alice-phone add Trip
///     shared-notes --user alice --folder alice-phone share Trip
///     shared-notes --user bob --folder bob-tablet accept LINK
///     shared-notes --user bob --folder bob-tablet memo Trip "Bring the map"
@main
struct SharedNotes: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "shared-notes",
        abstract: "Notes with memos that users can share: an example of ZoneMirror.",
        subcommands: [List.self, Add.self, AddMemo.self, Share.self, Accept.self, Stop.self, Watch.self]
    )
}

/// The options that describe the device and its user.
struct Device: ParsableArguments {
    @Option(help: "The folder of the device's files; created if it is missing.")
    var folder = "shared-notes"

    @Option(help: "The device's user, for a relay with --dev; by default from the ZONECAST_ variables.")
    var user: String?

    @Option(help: "The relay's address, with --user; by default from ZONECAST_URL.")
    var url = ProcessInfo.processInfo.environment["ZONECAST_URL"] ?? "http://127.0.0.1:8080"

    @Option(help: "The container.")
    var container = "iCloud.org.example.shared-notes"

    /// Opens the app, runs `work`, and closes the app after all changes are sent to the relay.
    func run(_ work: (NotesApp) async throws -> Void) async throws {
        let home = URL(fileURLWithPath: folder, isDirectory: true)
        try FileManager.default.createDirectory(at: home, withIntermediateDirectories: true)
        let app = try await NotesApp(try cloud(), folder: home)
        do {
            // Offline, the notes are those of the last sync, and changes are sent with the next one.
            do { try await app.update() } catch { Self.warn(error) }
            try await work(app)
            do { try await app.update() } catch { Self.warn(error) }
        } catch {
            await app.close()
            throw NotesError(error.localizedDescription)
        }
        await app.close()
    }

    private static func warn(_ error: any Error) {
        FileHandle.standardError.write(Data("Not in sync with the relay: \(error.localizedDescription)\n".utf8))
    }

    private func cloud() throws -> CKContainer {
        guard let user else { return CKContainer(identifier: container) }
        guard let address = URL(string: url), ["http", "https"].contains(address.scheme) else {
            throw ValidationError("\(url) is not an address. Try: --url http://127.0.0.1:8080")
        }
        return CKContainer(identifier: container, endpoint: .dev(address, user: user, deviceID: "\(user)-\(folder)"))
    }
}

extension NotesApp {
    /// Returns the note with this title; throws if there is none.
    func existing(_ title: String) throws -> Note {
        guard let note = try note(title) else {
            throw NotesError("There is no note \"\(title)\" here. `list` shows all notes.")
        }
        return note
    }

    /// Returns a line for each note and memo.
    func printed() async throws -> String {
        var lines: [String] = []
        for note in try notes() {
            let badges = try await badges(of: note)
            let whose = badges.isShared ? badges.isOwner ? "  shared" : "  shared by another user" : ""
            lines.append(note.title + whose + (badges.canEdit ? "" : ", read-only"))
            lines += try memos(of: note).map { "  - \($0)" }
        }
        return lines.isEmpty ? "No notes yet. Create one: add TITLE" : lines.joined(separator: "\n")
    }
}

struct List: AsyncParsableCommand {
    static let configuration = CommandConfiguration(abstract: "Show all notes and their memos.")
    @OptionGroup var device: Device

    func run() async throws { try await device.run { print(try await $0.printed()) } }
}

struct Add: AsyncParsableCommand {
    static let configuration = CommandConfiguration(abstract: "Create a note.")
    @OptionGroup var device: Device
    @Argument(help: "The note's title.") var title: String

    func run() async throws { try await device.run { try $0.addNote(title) } }
}

struct AddMemo: AsyncParsableCommand {
    static let configuration = CommandConfiguration(commandName: "memo", abstract: "Write a memo on a note.")
    @OptionGroup var device: Device
    @Argument(help: "The note's title.") var title: String
    @Argument(help: "The memo's text.") var text: String

    func run() async throws { try await device.run { try $0.addMemo(text, to: $0.existing(title)) } }
}

struct Share: AsyncParsableCommand {
    static let configuration = CommandConfiguration(abstract: "Share a note and its memos; prints the link.")
    @OptionGroup var device: Device
    @Argument(help: "The note's title.") var title: String
    @Option(help: "The address to invite; by default anyone with the link can join.") var email: String?
    @Flag(help: "Participants may read but not write.") var readOnly = false

    func run() async throws {
        try await device.run { app in
            let link = try await app.share(try app.existing(title), with: email, readOnly ? .readOnly : .readWrite)
            print(link?.absoluteString ?? "The relay returned no link for the share.")
        }
    }
}

struct Accept: AsyncParsableCommand {
    static let configuration = CommandConfiguration(abstract: "Accept an invitation link.")
    @OptionGroup var device: Device
    @Argument(help: "The link.") var link: String

    func run() async throws {
        guard let url = URL(string: link), url.scheme != nil else { throw ValidationError("\(link) is not a link.") }
        try await device.run { app in
            try await app.accept(url)
            print(try await app.printed())
        }
    }
}

struct Stop: AsyncParsableCommand {
    static let configuration = CommandConfiguration(abstract: "End your own share, or leave another user's.")
    @OptionGroup var device: Device
    @Argument(help: "The note's title.") var title: String

    func run() async throws { try await device.run { try await $0.stopSharing(try $0.existing(title)) } }
}

struct Watch: AsyncParsableCommand {
    static let configuration = CommandConfiguration(abstract: "Show the notes whenever they change, until interrupted.")
    @OptionGroup var device: Device

    func run() async throws {
        try await device.run { app in
            for await _ in app.changes() { print(try await app.printed() + "\n") }
        }
    }
}
