import Records
import RelayCore
import Synchronization

/// A cache of one container's compiled record types, emptied when the schema changes.
final class KnownTypes: Sendable {
    private struct Kept {
        var version = -1
        var types: [KnownType] = []
    }

    private let kept = Mutex(Kept())
    /// The maximum number of cached types; further types are compiled for each write.
    private static let most = 64

    func type(_ name: String, in schema: Schema) -> KnownType {
        kept.withLock { kept in
            if kept.version != schema.version { kept = Kept(version: schema.version) }
            for type in kept.types where type.name == name { return type }
            let type = KnownType(name, in: schema)
            // Unknown types are not cached: they may be added later, and a client can name any number of them.
            if type.definition != nil, kept.types.count < Self.most { kept.types.append(type) }
            return type
        }
    }
}

/// The caches of all containers.
final class AllKnownTypes: Sendable {
    private let all = Mutex<[ContainerEnvironment: KnownTypes]>([:])

    subscript(home: ContainerEnvironment) -> KnownTypes {
        all.withLock { all in
            if let known = all[home] { return known }
            let new = KnownTypes()
            all[home] = new
            return new
        }
    }
}
