import Foundation
package import RelaySystem
import Synchronization

/// A simulated disk for one folder that fails on demand and can lose power.
///
/// SQLite uses it through its own VFS, the relay's own files through `DiskCalls`. All writes reach the real file
/// system, so processes read what they wrote. The disk also tracks which data and file names have been flushed, for
/// `cutPower`.
///
///     let disk = FaultyDisk(folder: folder)
///     disk.arm(Fault(.sync, number: 3, .fails))
package final class FaultyDisk: Sendable {
    /// The operations that a fault can affect.
    package enum Operation: Hashable, Sendable, CaseIterable {
        case create, write, sync, truncate, remove, rename, makeFolder
        /// Affected only by a fault that names it: the number of reads is not deterministic.
        case read
    }

    /// A failure, and the operation at which it happens.
    package struct Fault: Hashable, Sendable {
        package enum Effect: Hashable, Sendable {
            /// `EIO`.
            case fails
            /// `ENOSPC`.
            case isFull
            /// Half of a write succeeds (whole sectors for SQLite's files), then `ENOSPC`.
            case isCutShort
            /// Keeps an image of the data that survives; from then on every operation fails.
            case losesPower
        }

        package var operations: Set<Operation>
        /// The operation to fail, counted from 1 since `arm`.
        package var number: Int
        package var effect: Effect
        /// Whether all later operations fail too, until `heal`.
        package var lasts: Bool

        /// If `operations` is `nil`, the fault affects all operations that the effect applies to.
        ///
        /// A full disk affects only those that need space.
        package init(_ operations: Set<Operation>? = nil, number: Int, _ effect: Effect, lasts: Bool = false) {
            let all: Set<Operation> =
                switch effect {
                case .isFull, .isCutShort: [.create, .write, .makeFolder]
                case .fails, .losesPower: Set(Operation.allCases).subtracting([.read])
                }
            self.operations = operations ?? all
            self.number = number
            self.effect = effect
            self.lasts = lasts
        }
    }

    fileprivate struct State {
        var fault: Fault?
        var count = 0
        var hasStruck = false
        var isDead = false
        /// Files by path as processes see them.
        var names: [String: Int] = [:]
        /// Files by path after a power cut.
        var durableNames: [String: Int] = [:]
        var files: [Int: DiskFile] = [:]
        var folders: Set<String> = []
        var durableFolders: Set<String> = []
        /// Folder renames that are not durable yet.
        var folderMoves: [(from: String, to: String)] = []
        var descriptors: [Int32: String] = [:]
        var nextFile = 0
    }

    package let folder: String
    private let state = Mutex(State())
    private static let disks = Mutex<[String: FaultyDisk]>([:])

    /// Replaces the system's disk for all files in `folder` that are opened from now on.
    ///
    /// The folder must exist.
    package init(folder: String) {
        self.folder = folder
        FaultyVFS.register()
        adopt()
        Self.disks.withLock { $0[folder] = self }
    }

    /// Creates the same disk under another folder name, after all processes on `other` were killed: it shows what they
    /// wrote, and as durable what they flushed.
    package init(afterKillOn other: FaultyDisk, folder: String) throws {
        self.folder = folder
        let root = other.folder
        let left = other.state.withLock { state in
            // Later writes of the killed processes must not count.
            state.isDead = true
            return state
        }
        func moved(_ path: String) -> String { folder + path.dropFirst(root.count) }
        for path in left.folders.sorted() where path != root {
            try FileManager.default.createDirectory(atPath: moved(path), withIntermediateDirectories: true)
        }
        // The relay deletes a failed upload without a disk call, so the file may be missing.
        for path in left.names.keys where FileManager.default.fileExists(atPath: path) {
            try FileManager.default.copyItem(atPath: path, toPath: moved(path))
        }
        state.withLock { state in
            state.files = left.files
            state.nextFile = left.nextFile
            state.names = Dictionary(uniqueKeysWithValues: left.names.map { (moved($0.key), $0.value) })
            state.durableNames = Dictionary(uniqueKeysWithValues: left.durableNames.map { (moved($0.key), $0.value) })
            state.folders = Set(left.folders.map(moved))
            state.durableFolders = Set(left.durableFolders.map(moved))
        }
        Self.disks.withLock { $0[folder] = self }
    }

    /// Ends the simulation for the folder.
    ///
    /// Files that are open stay on this disk.
    package func detach() { Self.disks.withLock { $0[folder] = nil } }

    static func disk(of path: String) -> FaultyDisk? {
        disks.withLock { disks in disks.first { path.hasPrefix($0.key + "/") }?.value }
    }

    // MARK: Faults

    /// Sets the next fault, resets the operation count and ends earlier faults.
    package func arm(_ fault: Fault?) {
        state.withLock { state in
            state.fault = fault
            state.count = 0
            state.hasStruck = false
        }
    }

    /// Ends the fault.
    ///
    /// Does not restore power.
    package func heal() { arm(nil) }

    /// Cancels a fault that has not occurred yet.
    ///
    /// Returns whether it has occurred.
    package func disarm() -> Bool {
        state.withLock { state in
            if !state.hasStruck { state.fault = nil }
            return state.hasStruck
        }
    }

    /// Whether the fault has occurred.
    package var hasStruck: Bool { state.withLock { $0.hasStruck } }

    /// The number of operations since `arm` that the fault could have affected.
    package var count: Int { state.withLock { $0.count } }

    /// The fault to apply to this operation; `nil` if it succeeds.
    func verdict(on operation: Operation) -> Fault.Effect? {
        state.withLock { state in
            if state.isDead { return .fails }
            guard let fault = state.fault, fault.operations.contains(operation) else { return nil }
            state.count += 1
            guard state.count == fault.number || (fault.lasts && state.count > fault.number) else { return nil }
            state.hasStruck = true
            if fault.effect == .losesPower { state.isDead = true }
            return fault.effect
        }
    }

    // MARK: Durable state

    /// Marks all existing content as flushed.
    private func adopt() {
        let contents = FileManager.default.enumerator(atPath: folder)?.compactMap { $0 as? String } ?? []
        state.withLock { state in
            state.folders = [folder]
            for name in contents {
                let path = "\(folder)/\(name)"
                var isFolder: ObjCBool = false
                guard FileManager.default.fileExists(atPath: path, isDirectory: &isFolder) else { continue }
                if isFolder.boolValue {
                    state.folders.insert(path)
                } else if !path.hasSuffix("-shm") {
                    state.files[state.nextFile] = DiskFile(
                        durable: [UInt8](FileManager.default.contents(atPath: path) ?? Data())
                    )
                    state.names[path] = state.nextFile
                    state.nextFile += 1
                }
            }
            state.durableNames = state.names
            state.durableFolders = state.folders
        }
    }

    func opened(_ path: String) {
        state.withLock { state in
            guard state.names[path] == nil else { return }
            state.names[path] = state.nextFile
            state.files[state.nextFile] = DiskFile()
            state.nextFile += 1
        }
    }

    func changed(_ path: String, _ change: DiskFile.Change) {
        state.withLock { state in
            guard let file = state.names[path] else { return }
            state.files[file, default: DiskFile()].change(change)
        }
    }

    func flushed(_ path: String, successfully isGood: Bool) {
        state.withLock { state in
            guard let file = state.names[path] else { return }
            if isGood { state.files[file]?.flush() } else { state.files[file]?.flushFailed() }
        }
    }

    func removed(_ path: String) { state.withLock { $0.names[path] = nil } }

    /// Adds a hard link: another name of the same file.
    func linked(_ path: String, to target: String) { state.withLock { $0.names[target] = $0.names[path] } }

    /// Renames a file, or a folder with its content.
    func renamed(_ path: String, to target: String) {
        state.withLock { state in
            guard state.folders.contains(path) else {
                state.names[target] = state.names.removeValue(forKey: path)
                return
            }
            func moved(_ name: String) -> String {
                name == path || name.hasPrefix(path + "/") ? target + name.dropFirst(path.count) : name
            }
            state.names = Dictionary(state.names.map { (moved($0.key), $0.value) }) { $1 }
            state.folders = Set(state.folders.map(moved))
            for (descriptor, name) in state.descriptors { state.descriptors[descriptor] = moved(name) }
            state.folderMoves.append((path, target))
        }
    }

    func madeFolder(_ path: String) { state.withLock { _ = $0.folders.insert(path) } }

    /// Makes the current names in a folder durable.
    func flushedFolder(_ path: String) {
        func isInside(_ name: String) -> Bool { (name as NSString).deletingLastPathComponent == path }
        state.withLock { state in
            // A renamed folder takes its content with it.
            while let move = state.folderMoves.firstIndex(where: { isInside($0.to) }) {
                let (from, to) = state.folderMoves.remove(at: move)
                func moved(_ name: String) -> String {
                    name == from || name.hasPrefix(from + "/") ? to + name.dropFirst(from.count) : name
                }
                state.durableNames = Dictionary(state.durableNames.map { (moved($0.key), $0.value) }) { $1 }
                state.durableFolders = Set(state.durableFolders.map(moved))
            }
            state.durableNames = state.durableNames.filter { !isInside($0.key) }
            for (name, file) in state.names where isInside(name) { state.durableNames[name] = file }
            state.durableFolders = state.durableFolders.filter { !isInside($0) }
            state.durableFolders.formUnion(state.folders.filter(isInside))
        }
    }

    func describes(_ descriptor: Int32, _ path: String?) { state.withLock { $0.descriptors[descriptor] = path } }
    func path(of descriptor: Int32) -> String? { state.withLock { $0.descriptors[descriptor] } }

    /// Writes into another folder what a power cut leaves, now or at the moment of a `losesPower` fault.
    ///
    /// Call it when no process writes any more.
    package func cutPower(_ cut: PowerCut, leaving target: String) throws {
        let (names, files) = state.withLock { state in
            // If all data survives, so do all names.
            let names = cut == .keepsAll ? state.names : state.durableNames
            return (cut == .keepsAll ? names : names.filter { state.isReachable($0.key, from: folder) }, state.files)
        }
        var choice = PowerCut.Choice(cut)
        for (path, number) in names.sorted(by: { $0.key < $1.key }) {
            let place = target + path.dropFirst(folder.count)
            try FileManager.default.createDirectory(
                atPath: (place as NSString).deletingLastPathComponent,
                withIntermediateDirectories: true
            )
            let bytes = files[number]?.survivors(&choice) ?? []
            try Data(bytes).write(to: URL(fileURLWithPath: place))
        }
    }
}

extension FaultyDisk.State {
    /// Whether all parent folders have durable names.
    fileprivate func isReachable(_ path: String, from root: String) -> Bool {
        var parent = (path as NSString).deletingLastPathComponent
        while parent.count > root.count {
            guard durableFolders.contains(parent) else { return false }
            parent = (parent as NSString).deletingLastPathComponent
        }
        return true
    }
}

extension FaultyDisk {
    /// The file system calls of the relay's own files on this disk.
    package var calls: DiskCalls {
        let system = DiskCalls.system
        return DiskCalls(
            open: { [self] path, flags in
                let creates = flags & O_CREAT != 0
                if creates, let effect = verdict(on: .create) { return fails(effect) }
                let descriptor = system.open(path, flags)
                guard descriptor >= 0 else { return descriptor }
                describes(descriptor, path)
                if creates { opened(path) }
                return descriptor
            },
            write: { [self] descriptor, bytes in
                let effect = verdict(on: .write)
                guard effect == nil || effect == .isCutShort else { return Int(fails(effect)) }
                let part = UnsafeRawBufferPointer(rebasing: bytes[..<(effect == nil ? bytes.count : bytes.count / 2)])
                let count = system.write(descriptor, part)
                if count > 0, let path = path(of: descriptor) {
                    // Only after the write: before it, a file opened for appending reports the offset 0.
                    let offset = Int(lseek(descriptor, 0, SEEK_CUR)) - count
                    changed(path, .write(offset: offset, bytes: [UInt8](part.prefix(count))))
                }
                return count
            },
            sync: { [self] descriptor in
                let path = path(of: descriptor) ?? ""
                var isFolder: ObjCBool = false
                guard FileManager.default.fileExists(atPath: path, isDirectory: &isFolder) else { return 0 }
                if let effect = verdict(on: .sync) {
                    if !isFolder.boolValue { flushed(path, successfully: false) }
                    return fails(effect)
                }
                if isFolder.boolValue { flushedFolder(path) } else { flushed(path, successfully: true) }
                return 0
            },
            rename: { [self] path, target in
                if let effect = verdict(on: .rename) { return fails(effect) }
                let outcome = system.rename(path, target)
                if outcome == 0 { renamed(path, to: target) }
                return outcome
            },
            makeFolder: { [self] path in
                if let effect = verdict(on: .makeFolder) { return fails(effect) }
                let outcome = system.makeFolder(path)
                if outcome == 0 { madeFolder(path) }
                return outcome
            },
            link: { [self] path, target in
                if let effect = verdict(on: .create) { return fails(effect) }
                let outcome = system.link(path, target)
                if outcome == 0 { linked(path, to: target) }
                return outcome
            }
        )
    }

    private func fails(_ effect: Fault.Effect?) -> Int32 {
        errno = effect == .fails || effect == .losesPower ? EIO : ENOSPC
        return -1
    }
}
