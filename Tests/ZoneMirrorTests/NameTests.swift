import GRDB
import Testing
import ZoneKit
import ZoneMirror
import ZoneTesting

/// A name is a record name, which is unique in a zone across record types.
@Suite(.timeLimit(.minutes(15))) struct NameTests {
    let relay: TestRelay

    init() throws { relay = try TestRelay() }

    private func device(_ name: String) async throws -> Mirrored {
        try await Mirrored(relay.device(of: "alice", named: name))
    }

    private func save(_ folder: Folder, _ mirror: Mirrored) throws {
        let context = mirror.context()
        try context.insert(folder)
        try context.save()
    }

    private func folders(_ mirror: Mirrored) throws -> [String] { try mirror.context().fetch(Folder.self).map(\.name) }

    /// An object that could not be sent is rejected at save.
    @Test(arguments: [true, false]) func aNameInUseIsRejectedAtSave(_ isSent: Bool) async throws {
        let phone = try await device("phone")
        try phone.save(Note(id: "2024", title: "a year"))
        if isSent { try await phone.sync() }
        let error = #expect(throws: MirrorError.self) { try save(Folder(id: "2024", name: "of the year"), phone) }
        #expect(error?.explanation.contains("Folder/2024") == true)
        #expect(error?.explanation.contains("a unique name") == true)
        let database = try #require(phone.container.database(of: phone.store))
        await #expect(throws: (any Error).self) {
            try await database.write { try $0.execute(sql: "INSERT INTO Folder(id, name) VALUES ('2024', 'x')") }
        }
        #expect(try folders(phone).isEmpty)
    }

    @Test(
        "a name that the relay would reject is rejected at save",
        arguments: [
            "", String(repeating: "x", count: 256), "é", "a\nb", "tab\t", "del\u{7F}", "smile 🙂",
            "cloudkit.zoneshare",
        ]
    )
    func anInvalidRecordNameIsRejected(_ name: String) async throws {
        let phone = try await device("phone")
        let context = phone.context()
        try context.insert(Folder(id: RecordName(name), name: "wrong"))
        try context.insert(Folder(id: "right", name: "right"))
        let error = #expect(throws: MirrorError.self) { try context.save() }
        #expect(
            error?.explanation.contains("1 to 255 printable ASCII characters") == true,
            "\(error?.explanation ?? "")"
        )
        #expect(try folders(phone).isEmpty)
        let database = try #require(phone.container.database(of: phone.store))
        await #expect(throws: DatabaseError.self) {
            try await database.write { try $0.execute(sql: "INSERT INTO Folder(id) VALUES (?)", arguments: [name]) }
        }
        context.rollback()
        for name in [String(repeating: "x", count: 255), " ", "_a", "~!\"'\\:/"] {
            try context.insert(Folder(id: RecordName(name), name: "right"))
        }
        try context.save()
        try await phone.sync()
        #expect(try await phone.container.rejectedWrites(phone.store).isEmpty)
        #expect(try await phone.container.pendingExportCount(phone.store) == 0)
    }

    @Test("a name with a NUL character is rejected before SQLite truncates it")
    func aNameWithNULIsRejected() async throws {
        let phone = try await device("phone")
        let context = phone.context()
        #expect(throws: MirrorError.self) {
            try context.insert(Folder(id: "a\u{0}b", name: "wrong"))
            try context.save()
        }
        #expect(try folders(phone).isEmpty)
    }

    @Test("a store without a mirror accepts any name")
    func aLocalStoreAcceptsAnyName() async throws {
        let folder = try TemporaryFolder()
        let url = folder.url.appendingPathComponent("local.sqlite")
        let container = MirroredContainer(model: notesModel, stores: [StoreDescription(url: url)])
        try await container.loadStores()
        let context = container.newBackgroundContext()
        try context.insert(Folder(id: "é", name: "any"))
        try context.save()
        #expect(try context.fetch(Folder.self).map(\.name) == ["any"])
        await container.close()
    }

    /// A name can be reused after the relay has applied the deletion; other devices may fetch both changes at once.
    @Test func aNameCanBeReusedAfterADeletion() async throws {
        let (phone, laptop) = (try await device("phone"), try await device("laptop"))
        try phone.save(Note(id: "2024", title: "a year"))
        for mirror in [phone, laptop] { try await mirror.sync() }
        let context = phone.context()
        try context.delete(Note.self, id: "2024")
        try context.save()
        try await phone.sync()
        try save(Folder(id: "2024", name: "of the year"), phone)
        for mirror in [phone, laptop] {
            try await mirror.sync()
            #expect(try folders(mirror) == ["of the year"])
            #expect(try mirror.titles.isEmpty)
        }
    }

    /// The first object to reach the relay keeps the name; the other becomes a rejected write.
    @Test(arguments: [true, false]) func twoObjectsWithOneNameOnTwoDevicesConflict(_ fetchesFirst: Bool) async throws {
        let (phone, laptop) = (try await device("phone"), try await device("laptop"))
        try phone.save(Note(id: "2024", title: "a year"))
        try await phone.sync()
        try save(Folder(id: "2024", name: "of the year"), laptop)
        if fetchesFirst {
            try await laptop.container.fetchChanges()
        } else {
            await #expect(throws: MirrorError.self) { try await laptop.container.sendChanges() }
        }
        for mirror in [laptop, phone] { try await mirror.sync() }
        let refused = try await laptop.container.rejectedWrites(laptop.store)
        #expect(refused.map(\.object.description) == ["Folder/2024"])
        #expect(refused.first?.fields["CD_name"] == "of the year")
        #expect(refused.first?.explanation.contains("another name") == true)
        for mirror in [phone, laptop, try await device("fresh")] {
            try await mirror.sync()
            #expect(try mirror.titles == ["2024": "a year"])
            #expect(try folders(mirror).isEmpty)
            #expect(try await mirror.container.pendingExportCount(mirror.store) == 0)
        }
    }

    /// A device without knowledge of a share creates an object with the name of a shared one; both are kept in their
    /// zones.
    @Test(arguments: [true, false]) func twoZonesCanHaveTheSameName(_ fetchesFirst: Bool) async throws {
        let (phone, laptop) = (try await device("phone"), try await device("laptop"))
        try phone.save(Note(id: "inbox", title: "shared"))
        try await phone.sync()
        let (_, share, _) = try await phone.container.share([.init(store: phone.store, entity: "Note", name: "inbox")])
        try laptop.save(Note(id: "inbox", title: "own"))
        if fetchesFirst { try await laptop.container.fetchChanges() }
        let fresh = try await device("fresh")
        for mirror in [laptop, phone, fresh, laptop] { try await mirror.sync() }
        func expect(_ titles: [String]) throws {
            for mirror in [phone, laptop, fresh] {
                #expect(try mirror.titles.values.sorted() == titles, "\(mirror.device.name)")
            }
        }
        try expect(["own", "shared"])
        try edit("shared", to: "shared, edited", phone)
        try edit("own", to: "own, edited", fresh)
        for mirror in [phone, fresh, laptop, phone, fresh] { try await mirror.sync() }
        try expect(["own, edited", "shared, edited"])
        try await phone.container.resetEncryptedData(in: phone.store)
        for mirror in [phone, laptop, fresh, phone] { try await mirror.sync() }
        try expect(["own, edited", "shared, edited"])
        // The shared object moves to the home zone, which contains the other one.
        let shares = try await phone.container.fetchShares(in: phone.store)
        try await phone.container.stopSharing(shares.first ?? share, in: phone.store)
        for mirror in [phone, laptop, fresh] { try await mirror.sync() }
        try expect(["own, edited", "shared, edited"])
        for mirror in [phone, laptop, fresh] {
            #expect(try await mirror.container.pendingExportCount(mirror.store) == 0)
        }
    }

    private func edit(_ title: String, to other: String, _ mirror: Mirrored) throws {
        let context = mirror.context()
        let note = try #require(try context.fetch(Note.self, \.title == title).first)
        try context.edit(Note.self, note.id) { $0.title = other }
        try context.save()
    }

    /// SQLite truncates a string at a NUL character, so the rest would be lost silently.
    @Test func aTextWithNULIsRejected() async throws {
        let phone = try await device("phone")
        var note = Note(title: "a")
        note.body = "x\0"
        for (wrong, property) in [(Note(title: "a\0b"), "title"), (note, "body")] {
            let error = #expect(throws: MirrorError.self) { try phone.save(wrong) }
            #expect(error?.explanation.contains("its property \(property) ") == true)
        }
        #expect(try phone.titles.isEmpty)
    }
}
