#if !canImport(Darwin)
    public import Foundation

    // On Apple platforms these types conform to `CVarArg` through their Objective-C classes, so apps write `date as
    // CVarArg` in predicate arguments. Here predicates accept any value, and the conformances only make the casts
    // compile. `String(format:)` prints an object's address.

    extension NSObject: @retroactive CVarArg {
        /// The object's address.
        public var _cVarArgEncoding: [Int] { [Int(bitPattern: Unmanaged.passUnretained(self).toOpaque())] }
    }

    extension Date: @retroactive CVarArg {
        /// A placeholder that cannot be printed.
        public var _cVarArgEncoding: [Int] { [0] }
    }

    extension UUID: @retroactive CVarArg {
        /// A placeholder that cannot be printed.
        public var _cVarArgEncoding: [Int] { [0] }
    }

    extension Data: @retroactive CVarArg {
        /// A placeholder that cannot be printed.
        public var _cVarArgEncoding: [Int] { [0] }
    }

    extension URL: @retroactive CVarArg {
        /// A placeholder that cannot be printed.
        public var _cVarArgEncoding: [Int] { [0] }
    }
#endif
