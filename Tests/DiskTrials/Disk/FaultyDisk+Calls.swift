import Foundation
package import RelayStore

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
