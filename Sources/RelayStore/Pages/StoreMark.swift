import Foundation

/// An empty file beside a store's own, which says that there was one.
///
/// A store that is missing would be begun anew with nothing in it, and devices that come back would take all their zones for
/// deleted. Made by hand it is of no use; removed by hand it lets a store begin with nothing.
enum StoreMark {
    static let ending = "-here"

    /// Does nothing where it is there, or cannot be made: the next opening tries again.
    static func make(beside path: String) {
        guard !isThere(beside: path) else { return }
        let descriptor = open(path + ending, O_CREAT | O_RDONLY | O_CLOEXEC, 0o600)
        if descriptor >= 0 { close(descriptor) }
    }

    static func isThere(beside path: String) -> Bool { access(path + ending, F_OK) == 0 }
}
