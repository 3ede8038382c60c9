public import Foundation
import Records
public import ZoneKit

/// Identifies one store of a container, as long as its file exists.
public struct StoreID: Hashable, Sendable, CustomStringConvertible {
    /// The URL of the file in the container's list of descriptions.
    public let text: String

    package init(_ url: URL) { text = url.standardizedFileURL.path }

    /// The file's path.
    public var description: String { text }
}

/// Describes a store to open: its file, its contents, and which database of the relay it mirrors.
///
/// A value: for the shared store, copy the private store's description and change its URL and scope.
public struct StoreDescription: Sendable {
    /// What a save does with changes that the user may not make on the relay.
    public enum UnpermittedWrites: String, Sendable {
        /// The save throws and writes nothing.
        case reject
        /// The save succeeds; the relay refuses the change, which is then listed among the rejected writes.
        case allow
    }

    /// The file's URL; the files of other accounts are in the same folder.
    public var url: URL
    /// The configuration of the model whose entities the store holds; `nil` means all entities.
    public var configuration: String?
    /// The database to mirror, or `nil` for a local store, which sends nothing.
    ///
    /// If a local store gets this later, its objects are sent then.
    public var cloud: CloudOptions?
    /// Whether contexts are refused to write.
    public var isReadOnly = false
    /// Whether the store keeps a history of changes; a mirrored store always does.
    public var tracksHistory = true
    /// Whether the store reports commits by other containers and processes.
    public var postsRemoteChanges = true
    /// What a save does with changes that the user may not make on the relay.
    public var unpermittedWrites = UnpermittedWrites.reject

    /// Creates a description.
    ///
    /// - Parameters:
    ///   - url: The file.
    ///   - configuration: The configuration whose entities the store holds. The default is all entities.
    ///   - cloud: The database to mirror. The default is none.
    public init(url: URL, configuration: String? = nil, cloud: CloudOptions? = nil) {
        self.url = url
        self.configuration = configuration
        self.cloud = cloud
    }

    package var id: StoreID { StoreID(url) }
}

/// Which database a store mirrors, and how.
public struct CloudOptions: Sendable {
    /// The container of the database.
    public var container: CKContainer
    /// The scope of the database.
    public var scope: CKDatabase.Scope
    /// The zone of the private database for new objects.
    ///
    /// The default is the one that Core Data uses.
    public var zoneName = "com.apple.coredata.cloudkit.zone"
    /// Whether record types and fields begin with `CD_`, as Core Data's do.
    public var usesPrefix = true
    /// How a pending change is merged with a newer record.
    public var mergePolicy = MergePolicy.mergeByPropertyObjectTrump
    /// The application's own merging by entity, called before the policy is applied.
    public var mergeResolvers: [String: MergeResolver] = [:]
    /// The application's own merging of single properties, called before the policy is applied.
    ///
    /// Keys are entity and property, as in `"Note.labels"`.
    public var propertyResolvers: [String: PropertyResolver] = [:]
    /// The interval between polls of a public database, limited to between a minute and a day.
    public var pollInterval: Duration = .seconds(1800)
    /// The part of a public database that the store holds, by entity.
    ///
    /// Entities without an extent are held completely.
    public var extents: [String: PublicExtent] = [:]
    /// What happens to the objects of a shared store when their share ends or this user leaves it.
    public var losingAccess = LosingAccess.remove
    /// Whether a refused change stays in the local object, marked, instead of being undone.
    public var keepsRefusedChanges = false
    /// Whether a deletion on another device wins over a local change, whatever the merge policy is.
    public var acceptsDeletions = false
    /// The number of pending changes above which an event warns.
    public var outboxWarning = 10_000

    /// Creates options for a database of a container.
    ///
    /// - Parameters:
    ///   - containerIdentifier: The container's identifier; its configured relay is used.
    ///   - scope: The scope of the database. The default is private.
    public init(containerIdentifier: String, scope: CKDatabase.Scope = .private) {
        self.init(container: CKContainer(identifier: containerIdentifier), scope: scope)
    }

    /// Creates options for a database of a container.
    ///
    /// - Parameters:
    ///   - container: The container.
    ///   - scope: The scope of the database. The default is private.
    public init(container: CKContainer, scope: CKDatabase.Scope = .private) {
        self.container = container
        self.scope = scope
    }

    /// The entities and properties named by extents and resolvers that the model does not have, so that they would
    /// have no effect.
    func unknownNames(in model: MirrorModel) -> [String] {
        func isKnown(_ entity: String, _ property: String) -> Bool {
            guard let entity = model.entities[entity] else { return false }
            return entity.attributes.contains { $0.name == property }
                || entity.relationships.contains { $0.name == property }
        }
        let entities = (Array(extents.keys) + mergeResolvers.keys).filter { model.entities[$0] == nil }
        let wanted = extents.flatMap { entity, extent in (extent.properties ?? []).map { "\(entity).\($0)" } }
        return entities
            + (wanted + propertyResolvers.keys).filter { name in
                let parts = name.split(separator: ".", maxSplits: 1).map(String.init)
                return parts.count != 2 || !isKnown(parts[0], parts[1])
            }
    }

    var prefix: String { usesPrefix ? "CD_" : "" }

    /// What happens to shared objects when the user loses access to them.
    public enum LosingAccess: Hashable, Sendable {
        /// The objects are deleted, with their unsent changes.
        case remove
        /// The objects and the links between them are first copied to another store of the container: a local store,
        /// or the private store, which sends them.
        ///
        /// This also applies to single objects that the owner no longer shares with this user. Objects that the owner
        /// deletes are not copied.
        case keepCopy(in: URL)
    }
}

/// The part of one entity that a mirror of a public database holds, since a public database may be large.
///
///     cloud.extents["Message"] = PublicExtent(NSPredicate(format: "board == %@", "news"), properties: ["text", "board"])
///
/// An object that stops matching stays until `reconcile` removes it. Properties that are left out have their defaults and
/// are never sent. See PublicData.md, "Less than all".
public struct PublicExtent: Sendable {
    /// Why the condition cannot be sent, if so.
    let problem: String?
    private let filters: [Query.Filter]
    private let isEmpty: Bool
    let properties: [String]?

    /// Creates an extent.
    ///
    /// - Parameters:
    ///   - predicate: A condition on the objects: comparisons of properties joined by `AND`, as queries allow them.
    ///     The default is all objects. The relay needs an index for each property in it.
    ///   - properties: The properties to mirror. The default is all.
    public init(_ predicate: NSPredicate = NSPredicate(value: true), properties: [String]? = nil) {
        self.properties = properties
        var (filters, isEmpty, problem): ([Query.Filter], Bool, String?) = ([], false, nil)
        do throws(CKError) {
            let query = try CKQuery(recordType: "", predicate: predicate).query()
            filters = query?.filters ?? []
            isEmpty = query == nil
        } catch {
            problem = error.localizedDescription
        }
        (self.filters, self.isEmpty, self.problem) = (filters, isEmpty, problem)
    }

    /// Returns the extent for the wire.
    func wire(_ mapping: RecordMapping, _ entity: Entity) -> WireExtent {
        var extent = WireExtent(isEmpty: isEmpty)
        let known = Set(entity.attributes.map(\.name) + entity.relationships.map(\.name))
        extent.filters = filters.map { filter in
            var filter = filter
            if case .own(let name) = filter.field, known.contains(name) { filter.field = .own(mapping.prefix + name) }
            return filter
        }
        guard let properties else { return extent }
        let columns = mapping.tables[entity.name]?.columns.filter { properties.contains($0.name) } ?? []
        extent.fields =
            columns.flatMap { column in
                column.attribute?.type.hasLargeForm == true
                    ? [mapping.field(column), mapping.assetField(column)] : [mapping.field(column)]
            } + [mapping.prefix + "entityName"]
        if mapping.tables[entity.name]?.lastEditWinsColumns.isEmpty == false {
            extent.fields?.append(mapping.editTimesField)
        }
        return extent
    }
}

/// An extent in terms of record fields.
struct WireExtent: Hashable, Sendable {
    var filters: [Query.Filter] = []
    /// The fields to fetch; `nil` means all.
    var fields: [String]?
    /// Whether no record can match.
    var isEmpty = false
}

extension StoreFile {
    /// The extents by record type, for types that are mirrored in part only.
    var extents: [String: WireExtent] {
        var found: [String: WireExtent] = [:]
        for (name, extent) in description.cloud?.extents ?? [:] {
            guard let table = mapping.tables[name], let entity = table.entity else { continue }
            found[mapping.recordType(of: table)] = extent.wire(mapping, entity)
        }
        return found
    }
}
