import Records
import RelayCore
import Synchronization

/// The record types that a container's writes are of, each made ready once and kept while the schema stays as it is.
final class KnownTypes: Sendable {
    private struct Kept {
        var version = -1
        var types: [KnownType] = []
    }

    private let kept = Mutex(Kept())
    /// Past it, as in no schema made by people, a type is made ready for each write.
    private static let most = 64

    func type(_ name: String, in schema: Schema) -> KnownType {
        kept.withLock { kept in
            if kept.version != schema.version { kept = Kept(version: schema.version) }
            for type in kept.types where type.name == name { return type }
            let type = KnownType(name, in: schema)
            // What is not there may come, and anybody can ask for any number of such.
            if type.definition != nil, kept.types.count < Self.most { kept.types.append(type) }
            return type
        }
    }
}

/// Those of all containers.
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
