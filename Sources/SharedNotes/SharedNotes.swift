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
        abstract: "Notes with memos, alone and with others: an example of ZoneMirror.",
        subcommands: [List.self, Add.self, AddMemo.self, Share.self, Accept.self, Stop.self, Watch.self]
    )
}

/// Which device this is, and of whom.
struct Device: ParsableArguments {
    @Option(help: "The folder of the device's files; made when it is not there.")
    var folder = "shared-notes"

    @Option(help: "Whose device it is, at a relay in --dev; without it, who the ZONECAST_ variables say.")
    var user: String?

    @Option(help: "The relay's address, with --user; without it, what ZONECAST_URL says.")
    var url = ProcessInfo.processInfo.environment["ZONECAST_URL"] ?? "http://127.0.0.1:8080"

    @Option(help: "The container.")
    var container = "iCloud.org.example.shared-notes"

    /// Opens the app, does some work with it, and closes it when all of that is on the relay.
    func run(_ work: (NotesApp) async throws -> Void) async throws {
        let home = URL(fileURLWithPath: folder, isDirectory: true)
        try FileManager.default.createDirectory(at: home, withIntermediateDirectories: true)
        let app = try await NotesApp(try cloud(), folder: home)
        do {
            // Without the relay the notes are those of the last time, and what is written is sent with the next.
            do { try await app.update() } catch { Self.warn(error) }
            try await work(app)
            do { try await app.update() } catch { Self.warn(error) }
        } catch {
            await app.close()
            throw NotesFailure(error.localizedDescription)
        }
        await app.close()
    }

    private static func warn(_ error: any Error) {
        FileHandle.standardError.write(Data("Not in step with the relay: \(error.localizedDescription)\n".utf8))
    }

    private func cloud() throws -> CKContainer {
        guard let user else { return CKContainer(identifier: container) }
        guard let address = URL(string: url), ["http", "https"].contains(address.scheme) else {
            throw ValidationError("\(url) is no address. Try: --url http://127.0.0.1:8080")
        }
        return CKContainer(identifier: container, endpoint: .dev(address, user: user, deviceID: "\(user)-\(folder)"))
    }
}

extension NotesApp {
    /// The note of a title; throws where there is none.
    func existing(_ title: String) throws -> Note {
        guard let note = try note(title) else {
            throw NotesFailure("There is no note \"\(title)\" here. `list` shows those there are.")
        }
        return note
    }

    /// One line for each note and memo.
    func printed() async throws -> String {
        var lines: [String] = []
        for note in try notes() {
            let badges = try await badges(of: note)
            let whose = badges.isShared ? badges.isOwner ? "  shared" : "  of somebody else" : ""
            lines.append(note.title + whose + (badges.canEdit ? "" : ", read only"))
            lines += try memos(of: note).map { "  - \($0)" }
        }
        return lines.isEmpty ? "No notes yet. add TITLE makes one." : lines.joined(separator: "\n")
    }
}

struct List: AsyncParsableCommand {
    static let configuration = CommandConfiguration(abstract: "Show all notes and their memos.")
    @OptionGroup var device: Device

    func run() async throws { try await device.run { print(try await $0.printed()) } }
}

struct Add: AsyncParsableCommand {
    static let configuration = CommandConfiguration(abstract: "Make a note.")
    @OptionGroup var device: Device
    @Argument(help: "Its title.") var title: String

    func run() async throws { try await device.run { try $0.addNote(title) } }
}

struct AddMemo: AsyncParsableCommand {
    static let configuration = CommandConfiguration(commandName: "memo", abstract: "Write a memo on a note.")
    @OptionGroup var device: Device
    @Argument(help: "The note's title.") var title: String
    @Argument(help: "What to write.") var text: String

    func run() async throws { try await device.run { try $0.addMemo(text, to: $0.existing(title)) } }
}

struct Share: AsyncParsableCommand {
    static let configuration = CommandConfiguration(abstract: "Share a note and its memos; prints the link.")
    @OptionGroup var device: Device
    @Argument(help: "The note's title.") var title: String
    @Option(help: "Invite this address; without it, whoever has the link may join.") var email: String?
    @Flag(help: "They may read, and not write.") var readOnly = false

    func run() async throws {
        try await device.run { app in
            let link = try await app.share(try app.existing(title), with: email, readOnly ? .readOnly : .readWrite)
            print(link?.absoluteString ?? "The relay gave the share no link.")
        }
    }
}

struct Accept: AsyncParsableCommand {
    static let configuration = CommandConfiguration(abstract: "Open a link that somebody handed out.")
    @OptionGroup var device: Device
    @Argument(help: "The link.") var link: String

    func run() async throws {
        guard let url = URL(string: link), url.scheme != nil else { throw ValidationError("\(link) is no link.") }
        try await device.run { app in
            try await app.accept(url)
            print(try await app.printed())
        }
    }
}

struct Stop: AsyncParsableCommand {
    static let configuration = CommandConfiguration(abstract: "End a share of one's own, or leave somebody else's.")
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
