#if !canImport(Darwin)
    public import Foundation

    extension UserDefaults {
        /// Sets a value, as key-value coding has it on Apple's systems, where CloudKit's own samples use it.
        public func setValue(_ value: Any?, forKey key: String) { set(value, forKey: key) }

        /// A value, as key-value coding has it on Apple's systems.
        public func value(forKey key: String) -> Any? { object(forKey: key) }
    }
#endif
