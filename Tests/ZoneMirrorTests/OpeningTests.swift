import Foundation
import Testing
import ZoneKit
import ZoneMirror
import ZoneTesting

/// Stores that cannot be opened, or not at once; and what one save writes to several of them.
@Suite(.timeLimit(.minutes(15))) struct OpeningTests {
    private let relay: TestRelay

    init() throws { relay = try TestRelay() }

    /// A container that was closed and loaded once more follows its users as before.
    @Test func aContainerLoadedOnceMoreFollowsItsUsers() async throws {
        let device = relay.device(of: "alice", named: "tablet")
        let mirror = try await Mirrored(device)
        try mirror.save(Note(id: "a", title: "Alice's"))
        try await mirror.sync()
        await mirror.container.close()
        try await mirror.container.loadStores()
        device.connection.credentials.replace(webAuthToken: "dev-bob")
        let end = ContinuousClock.now + .seconds(60)
        while try !mirror.titles.isEmpty, ContinuousClock.now < end { try? await mirror.container.fetchChanges() }
        #expect(try mirror.titles == [:])
    }

    @Test func storesThatCouldNotBeLoadedCanBeLoadedLater() async throws {
        let device = relay.device(of: "alice", named: "phone")
        let other = relay.device(of: "alice", named: "phone", container: "iCloud.other")
        let folder = try TemporaryFolder()
        func store(_ name: String, _ container: CKContainer) -> StoreDescription {
            StoreDescription(
                url: folder.url.appendingPathComponent(name + ".sqlite"),
                cloud: CloudOptions(container: container)
            )
        }
        var conditions = MirrorConditions()
        conditions.isAutomatic = false
        let stores = [store("mine", device.container), store("others", other.container)]
        let first = MirroredContainer(model: notesModel, stores: [stores[1]], conditions: conditions)
        try await first.loadStores()
        let both = MirroredContainer(model: notesModel, stores: stores, conditions: conditions)
        let error = await #expect(throws: MirrorError.self) { try await both.loadStores() }
        #expect(error?.code == .storeSyncedElsewhere)
        // What it had opened until then is free for others.
        let third = MirroredContainer(model: notesModel, stores: [stores[0]], conditions: conditions)
        try await third.loadStores()
        await third.close()
        await first.close()
        try await both.loadStores()
        await both.close()
    }

    /// A folder without the right to write in it, say: nobody else has the file open for that.
    @Test func aFileThatCannotBeLockedSaysWhy() async throws {
        let device = relay.device(of: "alice", named: "phone")
        let folder = try TemporaryFolder()
        let lock = folder.url.appendingPathComponent("private.sqlite-sync")
        try FileManager.default.createDirectory(at: lock, withIntermediateDirectories: true)
        let error = await #expect(throws: MirrorError.self) { _ = try await Mirrored(device, folder: folder) }
        #expect(error?.code == .storage)
        #expect(error?.explanation.contains("private.sqlite-sync") == true)
        #expect(error?.explanation.contains("Is a directory") == true)
    }

    /// Where nobody has asked the relay, nothing has gone well.
    @Test func whatWasNotLoadedIsNotSynced() async throws {
        let device = relay.device(of: "alice", named: "phone")
        let url = try TemporaryFolder().url.appendingPathComponent("none/private.sqlite")
        let store = StoreDescription(url: url, cloud: CloudOptions(container: device.container))
        let container = MirroredContainer(model: notesModel, stores: [store])
        for _ in 0..<2 {
            let errors = [
                await #expect(throws: MirrorError.self) { try await container.sendChanges() },
                await #expect(throws: MirrorError.self) { try await container.fetchChanges() },
            ]
            #expect(errors.allSatisfy { $0?.explanation.contains("loadStores()") == true })
            await #expect(throws: MirrorError.self) { try await container.loadStores() }
        }
    }

    @Test func whatIsClosedIsNotSynced() async throws {
        let phone = try await Mirrored(relay.device(of: "alice", named: "phone"))
        try phone.save(Note(id: "a", title: "1"))
        await phone.container.close()
        for _ in 0..<2 {
            let error = await #expect(throws: MirrorError.self) { try await phone.container.sendChanges() }
            #expect(error?.code == .closed)
        }
        try await phone.container.loadStores()
        try await phone.container.sendChanges()
        #expect(try await phone.container.pendingExportCount(phone.store) == 0)
    }

    @Test func aDamagedFileSaysWhatToDo() async throws {
        let device = relay.device(of: "alice", named: "phone")
        let folder = try TemporaryFolder()
        let url = folder.url.appendingPathComponent("private.sqlite")
        try Data(repeating: 7, count: 20_000).write(to: url)
        let store = StoreDescription(url: url, cloud: CloudOptions(container: device.container))
        var conditions = MirrorConditions()
        conditions.isAutomatic = false
        let container = MirroredContainer(model: notesModel, stores: [store], conditions: conditions)
        let error = await #expect(throws: MirrorError.self) { try await container.loadStores() }
        #expect(error?.code == .storage)
        #expect(error?.explanation.contains("Move it away") == true, "\(error?.explanation ?? "")")
        // And that helps.
        for name in try FileManager.default.contentsOfDirectory(atPath: folder.url.path) {
            try FileManager.default.removeItem(at: folder.url.appendingPathComponent(name))
        }
        try await container.loadStores()
        await container.close()
    }

    /// The commonest mistake of a first launch: nobody else has the file, its folder is not there.
    @Test func aFolderThatIsNotThereIsNoOtherContainer() async throws {
        let folder = try TemporaryFolder()
        let url = folder.url.appendingPathComponent("not there").appendingPathComponent("private.sqlite")
        let device = relay.device(of: "alice", named: "phone")
        let store = StoreDescription(url: url, cloud: CloudOptions(container: device.container))
        let container = MirroredContainer(model: notesModel, stores: [store])
        let error = await #expect(throws: MirrorError.self) { try await container.loadStores() }
        #expect(error?.code == .storage)
        #expect(error?.explanation.contains("not there") == true, "\(error?.explanation ?? "")")
    }

    /// A rule for what the model does not have would never be asked, and an extent for it would bound nothing.
    @Test func rulesAreForWhatTheModelHas() async throws {
        let folder = try TemporaryFolder()
        let database = relay.device(of: "alice", named: "phone").container
        func refusal(_ change: (inout CloudOptions) -> Void) async -> String {
            var cloud = CloudOptions(container: database, scope: .public)
            change(&cloud)
            let store = StoreDescription(url: folder.url.appendingPathComponent("public.sqlite"), cloud: cloud)
            var conditions = MirrorConditions()
            conditions.isAutomatic = false
            let container = MirroredContainer(model: MirrorModel(Post.self), stores: [store], conditions: conditions)
            do throws(MirrorError) {
                try await container.loadStores()
                await container.close()
                return "none"
            } catch {
                return error.code == .unknownProperty ? error.explanation : "\(error)"
            }
        }
        #expect(await refusal { $0.extents["Posts"] = PublicExtent() }.contains(" Posts,"))
        #expect(await refusal { $0.extents["Post"] = PublicExtent(properties: ["texd"]) }.contains(" Post.texd,"))
        #expect(await refusal { $0.mergeResolvers["Posts"] = { _ in nil } }.contains(" Posts,"))
        for name in ["Posts.text", "Post.texd", "text"] {
            #expect(await refusal { $0.propertyResolvers[name] = { _, _, _ in nil } }.contains(" \(name),"))
        }
        let isRight = await refusal {
            $0.extents["Post"] = PublicExtent(properties: ["text", "deletedAt"])
            $0.mergeResolvers["Post"] = { _ in nil }
            $0.propertyResolvers["Post.text"] = { _, _, _ in nil }
        }
        #expect(isRight == "none")
    }

    /// A view that shows up twice loads twice; the second call takes nothing from the first.
    @Test func storesLoadedTwiceAtOnceAreOpen() async throws {
        for _ in 0..<10 {
            let phone = try await Mirrored(relay.device(of: "alice", named: "phone"))
            let context = phone.context()
            try context.insert(Note(id: "n", title: "1"))
            try context.save()
            try context.edit(Note.self, "n") { $0.title = "2" }
            await phone.container.close()
            let error = #expect(throws: MirrorError.self) { try context.save() }
            #expect(error?.explanation.contains("is not open") == true)
            let codes = await withTaskGroup(of: MirrorError.Code?.self) { group in
                for _ in 0..<3 {
                    group.addTask {
                        do throws(MirrorError) {
                            try await phone.container.loadStores()
                            return nil
                        } catch {
                            return error.code
                        }
                    }
                }
                return await group.reduce(into: []) { $0.append($1) }
            }
            let url = phone.container.descriptions[0].url
            #expect(codes.count { $0 == nil } == 1 && codes.count { $0 == .storeAlreadyLoaded(url) } == 2, "\(codes)")
            // What waited in a context meanwhile can be saved.
            try context.save()
            #expect(try phone.titles == ["n": "2"])
            try await phone.sync()
            await phone.container.close()
        }
    }

    /// A store that holds nothing by a slip of the pen looks like one that has nothing yet.
    @Test func whatIsNamedHasToBeThere() async throws {
        let folder = try TemporaryFolder()
        let url = folder.url.appendingPathComponent("a.sqlite")
        let model = MirrorModel(Note.self, Folder.self, Tag.self, configurations: ["all": ["Note", "Folder", "Tag"]])
        func refusal(_ model: MirrorModel, _ url: URL, _ configuration: String?) async -> MirrorError? {
            let store = StoreDescription(url: url, configuration: configuration)
            let container = MirroredContainer(model: model, stores: [store])
            return await #expect(throws: MirrorError.self) { try await container.loadStores() }
        }
        let missing = await refusal(model, url, "al")
        #expect(missing?.code == .wrongStore && missing?.explanation.contains("no configuration al") == true)
        let misspelt = MirrorModel(Note.self, Folder.self, Tag.self, configurations: ["all": ["Note", "Folders"]])
        let unknown = await refusal(misspelt, url, "all")
        #expect(unknown?.code == .wrongStore && unknown?.explanation.contains("Folders") == true)
        let elsewhere = await refusal(model, try #require(URL(string: "https://notes.example/a.sqlite")), nil)
        #expect(elsewhere?.code == .storage && elsewhere?.explanation.contains("URL(filePath:)") == true)
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder.url.path).isEmpty)
        let container = MirroredContainer(model: model, stores: [StoreDescription(url: url, configuration: "all")])
        try await container.loadStores()
        await container.close()
    }

    /// The small file beside the store may be lost, as when an application moves its database and leaves that behind.
    @Test func whoseFileItIsStandsInTheFileItself() async throws {
        let device = relay.device(of: "alice", named: "tablet")
        let mirror = try await Mirrored(device)
        try mirror.save(Note(id: "a", title: "Alice's"))
        try await mirror.sync()
        try mirror.save(Note(id: "unsent", title: "Alice's, not sent"))
        await mirror.container.close()
        let index = mirror.folder.url.appendingPathComponent("private.sqlite.accounts")
        try FileManager.default.removeItem(at: index)
        device.connection.credentials.replace(webAuthToken: "dev-bob")
        let again = try await Mirrored(device, folder: mirror.folder)
        let end = ContinuousClock.now + .seconds(60)
        while try again.titles != [:], ContinuousClock.now < end { try? await again.container.fetchChanges() }
        #expect(try again.titles == [:])
        try await again.sync()
        let bob = try await Mirrored(relay.device(of: "bob", named: "other"))
        try await bob.sync()
        #expect(try bob.titles == [:])
        device.connection.credentials.replace(webAuthToken: "dev-alice")
        while try again.titles.isEmpty, ContinuousClock.now < end { try? await again.container.fetchChanges() }
        #expect(try again.titles == ["a": "Alice's", "unsent": "Alice's, not sent"])
    }

    // MARK: Saves into several stores

    @Test func aSaveIntoTwoStoresIsInBothOrInNone() async throws {
        let device = relay.device(of: "alice", named: "phone")
        let folder = try TemporaryFolder()
        let local = StoreDescription(url: folder.url.appendingPathComponent("local.sqlite"))
        let cloud = StoreDescription(
            url: folder.url.appendingPathComponent("cloud.sqlite"),
            cloud: CloudOptions(container: device.container)
        )
        var conditions = MirrorConditions()
        conditions.isAutomatic = false
        let container = MirroredContainer(model: notesModel, stores: [cloud, local], conditions: conditions)
        try await container.loadStores()
        let (context, other) = (container.newBackgroundContext(), container.newBackgroundContext())
        try other.insert(Note(id: "shared", title: "one"))
        try other.save()
        let note = Note(id: "here", title: "stays here")
        try context.insert(note)
        try context.assign(note, to: container.store(at: local.url))
        try context.edit(Note.self, "shared") { $0.title = "two" }
        try other.edit(Note.self, "shared") { $0.title = "three" }
        try other.save()
        #expect(throws: MirrorError.self) { try context.save() }
        #expect(try other.fetch(Note.self).map(\.title) == ["three"])
        context.mergePolicy = .mergeByPropertyObjectTrump
        try context.save()
        #expect(Set(try other.fetch(Note.self).map(\.title)) == ["two", "stays here"])
        await container.close()
    }
}
