public import Foundation
public import ZoneKit

/// Names one store of a container, for as long as its file exists.
public struct StoreID: Hashable, Sendable, CustomStringConvertible {
    /// The file's address in the container's list of descriptions.
    public let text: String

    init(_ url: URL) { text = url.standardizedFileURL.path }

    /// The file's path.
    public var description: String { text }
}

/// One store to open: where its file is, what it holds, and which database of the relay it mirrors.
///
/// A value: the shared store's description is the private one's, copied, with another address and scope.
public struct StoreDescription: Sendable {
    /// What a save does with changes that the relay would not let the user make.
    public enum UnpermittedWrites: String, Sendable {
        /// The save throws, and nothing is written.
        case reject
        /// The save succeeds; the relay refuses, and the change goes to the rejected writes.
        case allow
    }

    /// The file; other accounts' files lie beside it.
    public var url: URL
    /// Which of the model's entities; `nil`: all.
    public var configuration: String?
    /// The database to mirror; `nil`: the store is local only, and nothing of it leaves the machine.
    ///
    /// A local store may get this later: the objects in it are sent then.
    public var cloud: CloudOptions?
    /// Nothing can be written by contexts.
    public var isReadOnly = false
    /// Keeps a history of changes; a mirrored store always does.
    public var tracksHistory = true
    /// Tells of commits by other containers and processes.
    public var postsRemoteChanges = true
    /// What a save does with changes that the relay would not let the user make.
    public var unpermittedWrites = UnpermittedWrites.reject

    /// Describes a store.
    ///
    /// - Parameters:
    ///   - url: The file.
    ///   - configuration: Which of the model's entities; left out, all.
    ///   - cloud: The database to mirror; left out, none.
    public init(url: URL, configuration: String? = nil, cloud: CloudOptions? = nil) {
        self.url = url
        self.configuration = configuration
        self.cloud = cloud
    }

    var id: StoreID { StoreID(url) }
}

/// Which database a store mirrors, and how.
public struct CloudOptions: Sendable {
    /// The container whose database it is.
    public var container: CKContainer
    /// Which of its databases.
    public var scope: CKDatabase.Scope
    /// The zone of the private database in which new objects go; Core Data's own unless said otherwise.
    public var zoneName = "com.apple.coredata.cloudkit.zone"
    /// Record types and fields begin with `CD_`, as Core Data's do.
    public var usesPrefix = true
    /// What happens where a pending change meets a newer record.
    public var mergePolicy = MergePolicy.mergeByPropertyObjectTrump
    /// By entity: the program's own merging, asked before the policy.
    public var mergeResolvers: [String: MergeResolver] = [:]
    /// By entity and property, as in `"Note.labels"`: the program's own merging of single properties, asked before the policy.
    public var propertyResolvers: [String: PropertyResolver] = [:]
    /// Between two polls of a public database; held between a minute and a day.
    public var pollInterval: Duration = .seconds(1800)
    /// By entity: which records of a public database the store holds, and which properties of them; left out, all.
    public var extents: [String: PublicExtent] = [:]
    /// What becomes of the objects of a shared store when their share ends, or this user's place in it.
    public var losingAccess = LosingAccess.remove
    /// A refused change stays in the local object, marked, instead of being taken back.
    public var keepsRefusedChanges = false
    /// When an object was deleted elsewhere and changed here, the deletion is accepted whatever the merge policy says.
    public var acceptsDeletions = false
    /// Pending changes above this number raise a warning event.
    public var outboxWarning = 10_000

    /// Says which database to mirror.
    ///
    /// - Parameters:
    ///   - containerIdentifier: The container's name; its relay is the one configured for it.
    ///   - scope: Which database; left out, the private one.
    public init(containerIdentifier: String, scope: CKDatabase.Scope = .private) {
        self.init(container: CKContainer(identifier: containerIdentifier), scope: scope)
    }

    /// Says which database to mirror.
    ///
    /// - Parameters:
    ///   - container: The container.
    ///   - scope: Which database; left out, the private one.
    public init(container: CKContainer, scope: CKDatabase.Scope = .private) {
        self.container = container
        self.scope = scope
    }

    /// The entities and properties of extents and resolvers that the model does not have: of these nobody would ever be asked.
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

    /// What becomes of shared objects when the access to them ends.
    public enum LosingAccess: Hashable, Sendable {
        /// They go, and changes to them that were not sent.
        case remove
        /// Copies of them, with the links between them, are put into another store of the container first: a local one, or the
        /// private one, which sends them.
        ///
        /// Also of single objects that the owner takes out of what this user sees. What the owner deletes goes without a copy.
        case keepCopy(in: URL)
    }
}
