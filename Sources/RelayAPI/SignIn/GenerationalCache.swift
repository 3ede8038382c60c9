/// A cache of at most twice `capacity` entries that evicts the least recently used ones.
///
/// Consists of two dictionaries. New and used entries are in the young one; when it is full, it becomes the old one and
/// the previous old one is dropped. Each operation costs a constant number of lookups.
struct GenerationalCache<Key: Hashable & Sendable, Value: Sendable>: Sendable {
    let capacity: Int
    private var young: [Key: Value] = [:]
    private var old: [Key: Value] = [:]

    init(capacity: Int) { self.capacity = capacity }

    var count: Int { young.count + old.count }

    subscript(key: Key) -> Value? {
        mutating get {
            if let value = young[key] { return value }
            guard let value = old.removeValue(forKey: key) else { return nil }
            self[key] = value
            return value
        }
        set {
            guard let newValue else {
                young[key] = nil
                old[key] = nil
                return
            }
            if young.count >= capacity, young[key] == nil {
                old = young
                young = [:]
            }
            young[key] = newValue
        }
    }

    mutating func removeAll() {
        young = [:]
        old = [:]
    }
}
