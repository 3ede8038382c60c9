import Foundation
import Records
import RelayCore
import RelaySystem
import SQLiteStore

/// A temporary data folder with SQLite files, which stay in memory where that is enough.
final class SQLiteTestHome: TestHome {
    /// Removes the folder when it is deinitialized.
    private final class Place: Sendable {
        let path: String

        init(in parent: String) {
            path = URL(fileURLWithPath: parent).appendingPathComponent("zonecast-\(UUID().uuidString)").path
        }

        deinit { try? FileManager.default.removeItem(atPath: path) }
    }

    static var unusable: any RelayHome { FolderHome("/dev/null/zonecast") }

    private static let cost = ScryptCost(rounds: 16, blockSize: 8, parallelism: 1)

    private let place: Place
    private let isLasting: Bool

    init(_ lifetime: TestStore.Lifetime, in parent: String) {
        place = Place(in: parent)
        isLasting = lifetime == .lasting
    }

    var folder: String { place.path }

    private var base: FolderHome { FolderHome(place.path) }

    // Everything that is opened keeps the folder by one of its closures.

    func accounts(
        time: TimeSource,
        random: RandomSource,
        onLostWrite: (@Sendable () -> Void)?
    ) throws(DirectoryError) -> any AccountDirectory {
        guard isLasting else { return try AccountStore(inMemory: (), time: time, random: random, cost: Self.cost) }
        return try AccountStore(folder: place.path, time: time, random: random, cost: Self.cost) { [place] in
            withExtendedLifetime(place) { onLostWrite?() }
        }
    }

    func stores(_ options: TestStoreOptions) -> any ServedStores {
        let events = options.options.events
        return StoreFolder(
            folder: isLasting ? place.path : nil,
            draw: options.options.draw,
            tuning: options.options.tuning,
            maxOpen: options.options.mostOpen,
            onCommit: events.committed,
            onCommitTime: events.commitTook,
            onLostWrite: { [place] in withExtendedLifetime(place) { events.lostWrite() } },
            onDamage: events.foundDamage,
            onShortage: events.lacksDescriptors,
            scheduler: options.scheduler
        )
    }

    func renewEpochs(of stores: any ServedStores) throws { try (stores as? StoreFolder)?.renewEpochs() }

    func abandon(_ stores: any ServedStores) { (stores as? StoreFolder)?.abandon() }

    func store(_ options: TestStoreOptions) throws -> any Store {
        let (options, base) = (options, options.options)
        guard let container = ContainerID("iCloud.org.example.one") else { preconditionFailure("a good name") }
        let home = ContainerEnvironment(container, .development)
        return try SQLiteStore(
            isLasting ? .file(path: "\(place.path)/containers/\(container.name)/development.sqlite") : .memory,
            draw: base.draw,
            tuning: base.tuning,
            idempotencyRecordLimit: options.idempotencyRecordLimit,
            onCommit: { base.events.committed(home, $0) },
            onCommitTime: base.events.commitTook,
            onLostWrite: { [place] in withExtendedLifetime(place) { base.events.lostWrite() } },
            onForeignOwner: options.foundForeignOwner,
            scheduler: options.scheduler
        )
    }

    // MARK: What needs no options

    func schemas(of container: ContainerID) -> any ContainerSchemas { base.schemas(of: container) }

    var upkeep: any StorageUpkeep { base.upkeep }

    var backups: any Backups { base.backups }

    func alertOverrides() throws(BackupFailure) -> AlertOverrides { try base.alertOverrides() }

    func setAlertOverrides(_ overrides: AlertOverrides) throws(BackupFailure) { try base.setAlertOverrides(overrides) }
}
