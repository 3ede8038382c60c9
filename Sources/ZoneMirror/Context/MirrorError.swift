public import Foundation
import GRDB
import ZoneKit

/// What went wrong with a mirror; `localizedDescription` says what a person can do.
public struct MirrorError: LocalizedError, Sendable {
    /// The part to switch over.
    public enum Code: Hashable, Sendable {
        /// The store's file is open in this container already.
        case storeAlreadyLoaded(URL)
        /// Another container, here or in another process, keeps this file in step.
        case storeSyncedElsewhere
        /// A shared store needs a private store of the same container and account.
        case sharedStoreNeedsPrivateStore
        /// There is a store for this database already.
        case databaseAlreadyMirrored
        /// The model breaks rules of mirrored stores; all of them are listed.
        case modelIncompatible([Violation])
        /// No store holds the entity, or none that can be written.
        case noStoreForEntity
        /// The store is not one of this container's.
        case unknownStore
        /// The property is not one that can be asked for.
        case unknownProperty
        /// The user may not change these objects.
        case permissionFailure([ObjectID])
        /// The objects changed since they were read, and the policy merges nothing.
        case mergeConflict([MergeConflict])
        /// The name is none that a record can have: 1 to 255 printable ASCII characters.
        case invalidName([ObjectID])
        /// The object is gone, or the access to it.
        case objectUnavailable
        /// Two objects of different stores, or of different shares, cannot be related.
        case crossStoreRelationship
        /// Two objects of different shares cannot be related.
        case crossShareRelationship
        /// The object is in a share already.
        case alreadyShared([ObjectID])
        /// The store cannot do this.
        case wrongStore
        /// Sharing would take more objects along than allowed.
        case tooManyObjects(Int)
        /// The container is closed.
        case closed
        /// The relay, or the way to it.
        case relay
        /// SQLite, or the file system.
        case storage
        /// The time was not enough.
        case timedOut
    }

    /// What went wrong.
    public var code: Code
    /// What happened and what to do about it.
    public var explanation: String
    /// The error behind this one.
    public var underlying: (any Error)?

    init(_ code: Code, _ explanation: String, underlying: (any Error)? = nil) {
        self.code = code
        self.explanation = explanation
        self.underlying = underlying
    }

    init(from error: any Error) {
        if let error = error as? MirrorError {
            self = error
        } else if let error = error as? CKError, let cause = error.storageCause {
            self.init(from: cause)
        } else if let error = error as? CKError {
            self.init(.relay, error.localizedDescription, underlying: error)
        } else if let error = error as? DatabaseError {
            self.init(.storage, Self.explanation(of: error), underlying: error)
        } else {
            self.init(.storage, "The store's file could not be read or written: \(error)", underlying: error)
        }
    }

    /// What a person can do about what SQLite says.
    private static func explanation(of error: DatabaseError) -> String {
        switch error.resultCode {
        case .SQLITE_FULL:
            "There is no space left on the disk. Nothing was written; make space, and try again."
        case .SQLITE_CORRUPT, .SQLITE_NOTADB:
            """
            The store's file is damaged, or no store's: \(error.message ?? "\(error.resultCode)"). Move it away, with the \
            files beside it that begin with its name: what was sent comes back from the relay, what was not is in that file only.
            """
        case .SQLITE_READONLY, .SQLITE_PERM, .SQLITE_CANTOPEN:
            "The store's file cannot be opened for writing: \(error.message ?? "\(error.resultCode)"). Look at its rights."
        default: "The store's file could not be read or written: \(error)"
        }
    }

    /// What happened and what to do about it.
    public var errorDescription: String? {
        guard case .modelIncompatible(let violations) = code else { return explanation }
        return ([explanation] + violations.map(\.description)).joined(separator: "\n")
    }
}

extension CKError {
    /// It was a file of ours that failed, and not the relay or the way to it.
    var isOfStorage: Bool {
        guard let cause = userInfo[NSUnderlyingErrorKey] as? NSError else { return false }
        return [DatabaseError.errorDomain, NSCocoaErrorDomain, NSPOSIXErrorDomain].contains(cause.domain)
    }
}

extension CKError {
    /// What SQLite said, where that is why something could not be sent or fetched.
    fileprivate var storageCause: DatabaseError? {
        guard let cause = userInfo[NSUnderlyingErrorKey] as? NSError, cause.domain == DatabaseError.errorDomain else {
            return nil
        }
        let code = ResultCode(rawValue: CInt(truncatingIfNeeded: cause.code))
        return DatabaseError(resultCode: code, message: cause.localizedFailureReason)
    }

    /// What happened and what to do about it, also where it was a file of ours.
    var advice: String? { storageCause.map { MirrorError(from: $0).explanation } ?? errorDescription }
}

/// An object that was changed in two ways: what both began from, and what each made of it.
public struct MergeConflict: Hashable, Sendable {
    /// The object.
    public var object: ObjectID
    /// The properties as they were when the context read them; empty for a new object.
    public var base: [String: String]
    /// As the context would write them.
    public var memory: [String: String]
    /// As the store has them; empty where the object is deleted there.
    public var store: [String: String]
}

/// Names one object of a container.
public struct ObjectID: Hashable, Sendable, CustomStringConvertible {
    /// The store that holds it; `nil` while it has never been saved.
    public var store: StoreID?
    /// Its entity.
    public var entity: String
    /// Its name.
    public var name: RecordName

    /// Names an object.
    public init(store: StoreID?, entity: String, name: RecordName) {
        self.store = store
        self.entity = entity
        self.name = name
    }

    /// Whether the object has never been saved.
    public var isTemporary: Bool { store == nil }

    /// Entity and name.
    public var description: String { "\(entity)/\(name)" }
}
