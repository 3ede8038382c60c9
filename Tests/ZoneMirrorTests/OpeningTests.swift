import Foundation
import Testing
import ZoneKit
import ZoneMirror
import ZoneTesting

/// Stores that cannot be opened, or only later, and saves that write to several stores.
@Suite(.timeLimit(.minutes(15))) struct OpeningTests {
    private let relay: TestRelay

    init() throws { relay = try TestRelay() }

    /// A container that was closed and loaded again still notices account changes.
    @Test func aReloadedContainerNoticesAccountChanges() async throws {
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

    @Test func storesCanBeLoadedAfterAFailedAttempt() async throws {
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
        // The failed attempt has released the stores that it had opened.
        let third = MirroredContainer(model: notesModel, stores: [stores[0]], conditions: conditions)
        try await third.loadStores()
        await third.close()
        await first.close()
        try await both.loadStores()
        await both.close()
    }

    /// For example in a folder without write permission; another container is not the reason.
    @Test func aLockFailureIsReportedWithItsReason() async throws {
        let device = relay.device(of: "alice", named: "phone")
        let folder = try TemporaryFolder()
        let lock = folder.url.appendingPathComponent("private.sqlite-sync")
        try FileManager.default.createDirectory(at: lock, withIntermediateDirectories: true)
        let error = await #expect(throws: MirrorError.self) { _ = try await Mirrored(device, folder: folder) }
        #expect(error?.code == .storage)
        #expect(error?.explanation.contains("private.sqlite-sync") == true)
        #expect(error?.explanation.contains("Is a directory") == true)
    }

    /// Sync calls must not succeed without asking the relay.
    @Test func syncCallsThrowBeforeTheStoresAreLoaded() async throws {
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

    @Test func syncCallsThrowAfterClosing() async throws {
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

    @Test func theErrorForADamagedFileSaysWhatToDo() async throws {
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
        // Following the advice helps.
        for name in try FileManager.default.contentsOfDirectory(atPath: folder.url.path) {
            try FileManager.default.removeItem(at: folder.url.appendingPathComponent(name))
        }
        try await container.loadStores()
        await container.close()
    }

    /// The most common mistake at a first launch: the store's folder does not exist.
    @Test func aMissingFolderIsNotReportedAsAnotherContainer() async throws {
        let folder = try TemporaryFolder()
        let url = folder.url.appendingPathComponent("not there").appendingPathComponent("private.sqlite")
        let device = relay.device(of: "alice", named: "phone")
        let store = StoreDescription(url: url, cloud: CloudOptions(container: device.container))
        let container = MirroredContainer(model: notesModel, stores: [store])
        let error = await #expect(throws: MirrorError.self) { try await container.loadStores() }
        #expect(error?.code == .storage)
        #expect(error?.explanation.contains("not there") == true, "\(error?.explanation ?? "")")
    }

    /// Resolvers and extents for names that the model lacks would have no effect, so loading throws.
    @Test func optionsForUnknownPropertiesAreRejected() async throws {
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
        let result = await refusal {
            $0.extents["Post"] = PublicExtent(properties: ["text", "deletedAt"])
            $0.mergeResolvers["Post"] = { _ in nil }
            $0.propertyResolvers["Post.text"] = { _, _, _ in nil }
        }
        #expect(result == "none")
    }

    /// A view that appears twice loads the stores twice; the second call must not affect the first.
    @Test func storesLoadedTwiceConcurrentlyAreOpen() async throws {
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
            // A context's unsaved changes can be saved now.
            try context.save()
            #expect(try phone.titles == ["n": "2"])
            try await phone.sync()
            await phone.container.close()
        }
    }

    /// Without the error, a store that is empty because of a typo would look like a new store.
    @Test func unknownConfigurationsAndEntitiesAreRejected() async throws {
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

    /// The accounts file may be lost, for example if an application moves only the database.
    @Test func aStoreFileNamesItsUser() async throws {
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

    // MARK: Saves to several stores

    @Test func aSaveToTwoStoresIsAtomic() async throws {
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

/// A container may be closed while other tasks read from it.
@Suite(.timeLimit(.minutes(15))) struct ClosingTests {
    @Test func readsInProgressSurviveClosingTheContainer() async throws {
        let folder = try TemporaryFolder()
        for round in 0..<20 {
            let description = StoreDescription(url: folder.url.appendingPathComponent("\(round).sqlite"))
            let container = MirroredContainer(model: notesModel, stores: [description])
            try await container.loadStores()
            let context = container.newBackgroundContext()
            for number in 0..<50 { try context.insert(Note(title: "note \(number)")) }
            try context.save()
            let found = await withTaskGroup(of: Int.self) { group in
                for _ in 0..<4 {
                    group.addTask {
                        var found = 0
                        while let count = try? context.fetch(Note.self).count, count > 0 {
                            found += count
                            await Task.yield()
                        }
                        return found
                    }
                }
                group.addTask {
                    for _ in 0..<round { await Task.yield() }
                    await container.close()
                    return 0
                }
                return await group.reduce(0, +)
            }
            #expect(found % 50 == 0)
            #expect(try context.fetch(Note.self).isEmpty)
        }
    }
}
