import Foundation
import Records
import RelayCore
import StoreTesting
import Testing

/// The conditions of tests of a store with files, and of one without.
private let keepsFiles = ConditionTrait.enabled(if: TestStore.current.keepsFiles, "the database makes the backups")
private let leavesFiles = ConditionTrait.enabled(if: !TestStore.current.keepsFiles, "the store makes its own backups")

/// What the console, the doctor and the commands get of a place beside accounts and stores.
@Suite struct HomeTests {
    private let place = TestStore.current.makeHome(.lasting)
    private let month = CalendarMonth(number: 24_000)

    private func withStore(_ body: (any Store) async throws -> Void) async throws {
        let stores = place.stores()
        defer { stores.close() }
        try await body(try stores.store(of: .test))
    }

    private func fill() async throws {
        try await withStore { store in
            try await store.makeZone()
            try await store.save(["a", "b"])
        }
    }

    // MARK: Settings

    @Test("alert settings are empty at first, and kept") func alerts() throws {
        #expect(try place.alertOverrides() == AlertOverrides())
        _ = try place.accounts()
        var overrides = AlertOverrides()
        overrides.limits["disk"] = 7.5
        overrides.muted["backup"] = 1_000
        try place.setAlertOverrides(overrides)
        #expect(try place.alertOverrides() == overrides)
        try place.setAlertOverrides(AlertOverrides())
        #expect(try place.alertOverrides() == AlertOverrides())
    }

    @Test("an unusable place says so, and reads as empty where nothing is read") func unusable() {
        let home = TestStore.current.unusableHome()
        #expect(throws: DirectoryError.self) { try home.accounts() }
        let stores = home.stores(StoreOptions(draw: { 7 }))
        #expect(!stores.isThere(.test))
        #expect(throws: RelayError.self) { try stores.store(of: .test) }
        stores.close()
    }

    // MARK: Upkeep

    @Test("a place is sound with its accounts and stores, and has a store for each use") func faults() async throws {
        #expect(try place.upkeep.faults { _ in }.isEmpty && place.upkeep.storeFiles().isEmpty)
        _ = try place.accounts()
        try await fill()
        #expect(try place.upkeep.faults { _ in }.isEmpty)
        #expect(!place.upkeep.lacksAccounts && !place.upkeep.isForeign)
        let files = try place.upkeep.storeFiles()
        #expect(
            try files.count == (TestStore.current.keepsFiles ? 1 : 0)
                && files.allSatisfy { try place.upkeep.layout(of: $0).isCurrent }
        )
        #expect(try place.upkeep.accountsLayout().file.isCurrent && !place.upkeep.engine.name.isEmpty)
    }

    @Test("a report lists storage by owner, largest first, and asking creates no store") func report() async throws {
        func report(naming count: Int = 10) throws -> StorageReport {
            try place.upkeep.report(on: .test, month: month, naming: count)
        }
        #expect(try report().owners.isEmpty && place.upkeep.files(of: .test) == nil)
        #expect(!place.stores().isThere(.test))
        let homeOfAlice = ZoneID(ZoneID.defaultName, owner: .alice)
        try await withStore { store in
            for (id, names) in [
                (homeOfAlice, ["a", "b"]), (ZoneID("B", owner: .alice), ["c"]),
                (ZoneID(ZoneID.defaultName, owner: .bob), ["d", "e", "f", "g"]), (.common, ["p"]),
            ] {
                if id != .common { try await store.makeZone(id) }
                try await store.save(names, in: id)
            }
            try await store.write(touching: Zone.publicOwner) { [month] writer throws(RelayError) in
                try writer.addTransfer(9, in: month)
            }
        }
        let listed = try report()
        #expect(listed.owners.map(\.user) == [.bob, .alice] && listed.owners.map(\.zones) == [1, 2])
        #expect(listed.sent == 9 && listed.users == 2 && listed.publicUse.records > 0)
        #expect(try report(naming: 1).owners.map(\.user) == [.bob])
        let use = try place.upkeep.use(of: .alice, in: .test)
        #expect(use.zones == 2 && use.bytes == listed.owners[1].use.total)
        #expect(try place.upkeep.defaultZoneNames(of: .alice, in: .test) == ["a", "b"])
        #expect(try place.upkeep.publicNames(madeBy: .alice, in: .test) == ["p"])
        #expect(try place.upkeep.publicNames(madeBy: .bob, in: .test).isEmpty)
        #expect(try place.upkeep.use(of: .alice, in: .named("iCloud.none")).zones == 0)
    }

    @Test("stored assets are listed with their use, and what a record lacks is missing") func assets() async throws {
        let stores = place.stores()
        let assets = try stores.assets(of: .test)
        func upload(_ content: [UInt8]) throws -> AssetHash {
            let upload = try assets.begin()
            try upload.take(content)
            return try upload.finish().hash
        }
        let (used, unused) = (try upload([1, 2, 3]), try upload([9]))
        let lacking = try #require(AssetHash(Array(repeating: 7, count: AssetHash.byteCount)))
        let store = try stores.store(of: .test)
        try await store.makeZone()
        try await store.write(touching: .alice) { writer throws(RelayError) in
            try writer.define(["Photo": RecordType(fields: ["file": .init(.scalar(.asset))])])
        }
        try await store.put(
            [(used, Int64(3)), (lacking, 5)].map { hash, size in
                var photo = Draft("photo \(hash.hex)")
                photo.type = "Photo"
                photo.fields["file"] = .asset(Asset(fileChecksum: hash.checksum, size: size))
                return photo
            }
        )
        stores.close()
        let files = try #require(try place.upkeep.files(of: .test))
        #expect(Set(files.assets.map(\.hash)) == [used.hex, unused.hex] && files.missing == [lacking.hex])
        let asset = try #require(files.assets.first { $0.hash == used.hex })
        #expect(asset.isUsed && asset.bytes == 3 && place.upkeep.isWhole(asset, of: .test))
        #expect(files.assets.first { $0.hash == unused.hex }?.isUsed == false)
        #expect((place.upkeep.path(ofAsset: used.hex, in: .test) != nil) == TestStore.current.keepsFiles)
    }

    @Test("a removed container's data is gone, and another container's stays") func containerRemoval() async throws {
        let accounts = try place.accounts()
        let other = ContainerEnvironment.named("iCloud.org.example.other")
        for home in [.test, other] { try accounts.addContainer(home.container) }
        try await fill()
        let stores = place.stores()
        try await stores.store(of: other).makeZone()
        stores.close()
        try place.upkeep.remove(ContainerEnvironment.test.container, from: accounts)
        try place.upkeep.finishRemoval(with: accounts)
        let after = place.stores()
        defer { after.close() }
        #expect(!after.isThere(.test) && after.isThere(other))
        #expect(try accounts.containers().map(\.container) == [other.container])
    }

    @Test("compaction keeps all records") func compaction() async throws {
        _ = try place.accounts()
        try await fill()
        for room in try place.upkeep.rooms() { try place.upkeep.compact(room.file) }
        try await withStore { store throws in #expect(try store.feed() == ["a", "b"]) }
        #expect(try place.upkeep.faults { _ in }.isEmpty)
    }

    // MARK: Backups

    @Test("a store whose database makes the backups has none, and says who makes them", leavesFiles) func elsewhere() {
        let backups = place.backups
        #expect(backups.areElsewhere && backups.all(in: folder).isEmpty && backups.knownSchedule == nil)
        for refused in [
            { _ = try backups.create(in: folder, now: now) { _ in } },
            { try backups.setSchedule(BackupSchedule(.daily, keep: 1, folder: folder)) },
            { _ = try backups.named("latest", in: folder, at: now) },
            { _ = try place.upkeep.copy(to: folder) { _ in } },
        ] as [() throws -> Void] {
            let failure = #expect(throws: BackupFailure.self) { try refused() }
            if case .elsewhere? = failure { continue }
            Issue.record("\(String(describing: failure))")
        }
    }

    private var folder: String { place.folder + "/backups" }
    private let now = Timestamp(milliseconds: 1_780_000_000_000)

    @Test("there is no schedule until one is set, and none after it is removed", keepsFiles) func schedules() throws {
        let backups = place.backups
        #expect(try backups.schedule() == nil && backups.scheduleChanged == nil)
        #expect(backups.currentFolder == backups.standardFolder)
        _ = try place.accounts()
        let schedule = BackupSchedule(.weekly, keep: 3, folder: folder)
        try backups.setSchedule(schedule)
        #expect(try backups.schedule() == schedule && backups.scheduleChanged != nil && backups.currentFolder == folder)
        try backups.setSchedule(nil)
        #expect(try backups.schedule() == nil)
    }

    @Test("a backup is listed, found by name, and verified", keepsFiles) func backup() async throws {
        let accounts = try place.accounts()
        try accounts.addContainer(ContainerEnvironment.test.container)
        try await fill()
        let backups = place.backups
        #expect(backups.all(in: folder).isEmpty)
        #expect(throws: BackupFailure.self) { try backups.named("latest", in: folder, at: now) }
        let backup = try backups.create(in: folder, now: now) { _ in }
        #expect(backup.manifest.made == now.milliseconds && backup.manifest.zones >= 1 && backup.manifest.records == 2)
        #expect(backups.all(in: folder).map(\.name) == [backup.name] && backups.unusable(in: folder).isEmpty)
        #expect(try backups.named("latest", in: folder, at: now).name == backup.name)
        #expect(try backups.named(backup.name, in: folder, at: now).path == backup.path)
        #expect(backups.verify(backup, now: now) { _ in } == [] && backups.verdict(on: backup)?.faults == 0)
        #expect(backups.lackedAssets(of: backup).isEmpty)
        var (stream, bytes) = (try backups.stream(backup), Int64(0))
        while let piece = try stream.next() {
            switch piece {
            case .bytes(let part): bytes += Int64(part.count)
            case .file(_, let length): bytes += length
            }
        }
        #expect(bytes == stream.length)
    }

    @Test("a restored place has the backup's data, and tokens of its lost future are expired", keepsFiles)
    func restore()
        async throws
    {
        let accounts = try place.accounts()
        try accounts.addContainer(ContainerEnvironment.test.container)
        let account = try accounts.devAccount(named: "alice")
        try await fill()
        let backup = try place.backups.create(in: folder, now: now) { _ in }
        var (early, late) = ("", "")
        try await withStore { store in
            early = try store.page().token
            for number in 0..<30 { try await store.save(["lost-\(number)"]) }
            late = try store.page(since: early).token
        }
        _ = try place.backups.restore(
            backup,
            [.test],
            now: now + .seconds(60),
            draw: { UInt64.random(in: 1 ... .max) },
            step: { _ in }
        )
        try place.backups.finishRestore()
        try await withStore { store in
            #expect(try store.feed() == ["a", "b"])
            #expect(throws: RelayError.changeTokenExpired) { try store.page(since: late) }
            for number in 0..<60 { try await store.save(["new-\(number)"]) }
            #expect(throws: RelayError.changeTokenExpired) { try store.page(since: late) }
        }
        #expect(try place.accounts().devAccount(named: "alice") == account)
    }

    @Test("a backup that is due is made once", keepsFiles) func dueBackups() async throws {
        _ = try place.accounts()
        try await fill()
        let schedule = BackupSchedule(.daily, keep: 2, folder: folder)
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        try place.backups.tryFolder(of: schedule)
        #expect(try place.backups.makeDue(schedule, at: now) != nil)
        #expect(try place.backups.makeDue(schedule, at: now + .seconds(3_600)) == nil)
        for day in 1...3 { #expect(try place.backups.makeDue(schedule, at: now + .seconds(86_400 * day)) != nil) }
        #expect(place.backups.all(in: folder).count == 2)
    }
}
