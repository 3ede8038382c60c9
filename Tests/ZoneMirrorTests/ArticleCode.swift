import Foundation
import GRDB
import ZoneKit
import ZoneMirror

// The code of the articles in ZoneMirror.docc, verbatim: `SnippetTests` compares them.

struct Reminder: SyncedRecord {
    var id = RecordName()
    var title = ""
    var done = false
    var due: Date?
    var list = ToOne<ReminderList>(inverse: "reminders")
}

struct ReminderList: SyncedRecord {
    var id = RecordName()
    var name = ""
    var reminders = ToMany<Reminder>(inverse: "list", deleteRule: .cascade)
}

/// The later edit of a shelf's name or number of books counts.
struct BookShelf: SyncedRecord {
    var id = RecordName()
    var books = 0
    var volumes = ToMany<Volume>(inverse: "shelf")

    static func describe(_ entity: inout Entity) { entity.letLastEditsWin() }
}

/// A book of a shelf that may be shared by itself.
struct Volume: SyncedRecord {
    var id = RecordName()
    var shelf = ToOne<BookShelf>(inverse: "volumes")

    static func describe(_ entity: inout Entity) {
        entity.relationship("shelf") { $0.isParent = true }
    }
}

enum FromCoreData {
    static func open(folder: URL) async throws -> MirroredContainer {
        let own = StoreDescription(
            url: folder.appendingPathComponent("private.sqlite"),
            cloud: CloudOptions(containerIdentifier: "iCloud.com.example.reminders")
        )
        var shared = own
        shared.url = folder.appendingPathComponent("shared.sqlite")
        shared.cloud?.scope = .shared
        let model = MirrorModel(Reminder.self, ReminderList.self)
        let container = MirroredContainer(model: model, stores: [own, shared])
        try await container.loadStores()
        return container
    }

    static func merge(_ cloud: inout CloudOptions) {
        cloud.propertyResolvers["BookShelf.books"] = { base, mine, theirs in
            func number(_ value: DatabaseValue) -> Int { Int.fromDatabaseValue(value) ?? 0 }
            return (number(mine) + number(theirs) - number(base)).databaseValue
        }
    }

    static func comeAndGo(_ container: MirroredContainer) {
        container.accountPolicy = AccountPolicy(
            signedOut: { user in user.unsent.isEmpty ? .delete : .keepClosed },
            signedIn: { _ in .merge(by: ["ReminderList": ["name"]]) }
        )
    }

    @MainActor static func work(_ container: MirroredContainer) throws {
        let context = container.viewContext
        let list = ReminderList(name: "Home")
        var reminder = Reminder(title: "Buy milk")
        reminder.list = ToOne(list)
        try context.insert(list)
        try context.insert(reminder)
        try context.save()

        let open = try context.fetch(Reminder.self, \.done == false, sortedBy: .ascending(\.title))
        for reminder in open { try context.edit(Reminder.self, reminder.id) { $0.done = true } }
        let all = try context.related(to: list, \.reminders)
        print(all.map(\.title))
        try context.save()
    }

    @MainActor static func watch(_ container: MirroredContainer) async {
        for await reminders in container.viewContext.objects(Reminder.self, sortedBy: .ascending(\.title)) {
            print(reminders.map(\.title))
        }
    }

    static func sql(_ container: MirroredContainer, _ store: StoreID) throws {
        try container.database(of: store)?.write { db in
            try db.execute(sql: "UPDATE Reminder SET done = 1 WHERE due < unixepoch('now')")
        }
    }
}

struct Message: SyncedRecord {
    var id = RecordName()
    var text = ""
    var deletedAt: Date?

    static func describe(_ entity: inout Entity) { entity.softDeletion = "deletedAt" }
}

enum PublicData {
    static func open(file: URL) async throws -> MirroredContainer {
        let board = StoreDescription(
            url: file,
            cloud: CloudOptions(containerIdentifier: "iCloud.com.example.board", scope: .public)
        )
        let container = MirroredContainer(model: MirrorModel(Message.self), stores: [board])
        try await container.loadStores()
        return container
    }

    static func bound(_ cloud: inout CloudOptions) {
        cloud.extents["Message"] = PublicExtent(
            NSPredicate(format: "board == %@", "news"),
            properties: ["text", "board", "deletedAt"]
        )
    }

    static func delete(_ message: Message, _ container: MirroredContainer) async throws {
        let context = container.newBackgroundContext()
        guard container.canUpdateRecord(for: try context.objectID(of: message)) else { return }
        try context.softDelete(message)
        try context.save()
        try await container.purgeSoftDeleted(Message.self, olderThan: .seconds(90 * 86_400))
    }

    static func refresh(_ container: MirroredContainer) async throws {
        try await container.pollNow()
        try await container.reconcile(Message.self)
    }
}

enum Sharing {
    static func invite(_ list: ReminderList, _ container: MirroredContainer, _ store: StoreID) async throws -> URL? {
        let id = try container.newBackgroundContext().objectID(of: list)
        let (_, share, _) = try await container.share([id], title: list.name)
        share.addParticipant(emailAddress: "bob@example.org", permission: .readWrite)
        try await container.persistUpdatedShare(share, in: store)
        return share.url
    }

    static func accept(_ link: URL, _ container: MirroredContainer, into shared: StoreID) async throws {
        try await container.acceptShareInvitations(from: [link], into: shared)
    }

    static func keep(_ shared: inout StoreDescription, _ own: StoreDescription) {
        shared.cloud?.losingAccess = .keepCopy(in: own.url)
    }

    static func end(_ list: ReminderList, _ container: MirroredContainer, _ store: StoreID) async throws {
        let id = try container.newBackgroundContext().objectID(of: list)
        guard let share = try await container.fetchShares(matching: [id])[id] else { return }
        if share.isOwner {
            try await container.stopSharing(share, in: store)
        } else {
            try await container.leaveShare(share, in: store)
        }
    }
}

enum WhenThingsGoWrong {
    static func explain(_ reminder: Reminder, _ container: MirroredContainer) async throws {
        let id = try container.newBackgroundContext().objectID(of: reminder)
        print(try await container.explain(id))
    }

    static func decide(_ container: MirroredContainer, _ store: StoreID) async throws {
        for write in try await container.rejectedWrites(store) {
            print(write.object, write.explanation)
            if write.code == .permissionFailure {
                try await container.discard(write)
            } else {
                try await container.retry(write)
            }
        }
    }

    static func watch(_ container: MirroredContainer) async {
        for await event in container.events where !event.succeeded {
            print(event.kind, event.message ?? "")
        }
    }
}

/// A journal entry whose text only the user's devices can read.
struct JournalEntry: SyncedRecord {
    var id = RecordName()
    var title = ""
    var text = ""

    static func describe(_ entity: inout Entity) {
        entity.attribute("text") { $0.isEncrypted = true }
    }
}

enum Encryption {
    static func endpoint(_ relay: URL, _ user: String, _ passphrase: String) -> RelayEndpoint {
        var endpoint = RelayEndpoint(url: relay, apiToken: "64 hexadecimal digits of zonecast token create")
        endpoint.encryptionKey = PassphraseEncryptionKey(passphrase, salt: user)
        return endpoint
    }

    static func confirm(_ container: CKContainer, _ bob: CKRecord.ID) async throws {
        guard let key = try await container.encryptionKey(of: bob) else { return }
        print(key.fingerprint)  // compare it with what bob sees on his device
        try container.trustEncryptionKey(key)
    }
}
