# A thin wrapper: CMake and Ninja build, tools/ checks. Each target is described where its work is done.
#   BUILD=folder   where to build        JOBS=n   how many compilers at once     PREFIX=folder   for install
#   ISA=name       check with no more than that instruction set: base, avx2, avx512 ...
BUILD ?= build
JOBS ?= $(shell nproc)
PREFIX ?= /usr/local
CMAKE_FLAGS ?=
SANITIZE ?=
FUZZ_SECONDS ?= 60

# WORD=text: only benchmarks with that in their name. bench-peers also has SIZE=small|full|long, ROUNDS=n, THREADS=n, PEERS=text,
# ISA=avx2|avx512 and PYTHON=path (bench/peers/run.py).
.PHONY: all demo bench bench-peers check check-long check-asan check-ubsan check-tsan check-aarch64 check-faults check-python wheel cuda fuzz install lint format setup clean

all: $(BUILD)/build.ninja
	@ninja -C $(BUILD) -j $(JOBS) --quiet

$(BUILD)/build.ninja:
	@tools/setup.sh --print
	@cmake -S . -B $(BUILD) -G Ninja -DLONGSPAN_SANITIZE=$(SANITIZE) $(CMAKE_FLAGS)

setup:
	@tools/setup.sh

demo: setup
	@$(MAKE) --no-print-directory $(BUILD)/build.ninja
	@JOBS=$(JOBS) tools/demo.sh $(BUILD)

# $(BUILD)/build.ninja is asked for only after the set-up has put cmake there.
check check-long: setup
	@tools/setup.sh --check
	@$(MAKE) --no-print-directory all
	@tools/check-layers.py
	@tools/check-circles.py
	@tools/check-words.py
	@ninja -C $(BUILD) -j $(JOBS) --quiet tests-short $(if $(filter check-long,$@),tests-long bench-programs bench-peers-programs)
	@tools/check-bench.py $(BUILD)
	@ISA='$(ISA)' tools/check.sh $(BUILD) $(if $(filter check-long,$@),long,short)

check-asan:
	@$(MAKE) --no-print-directory check BUILD=build-asan SANITIZE=address
check-ubsan:
	@$(MAKE) --no-print-directory check BUILD=build-ubsan SANITIZE=undefined
check-tsan:
	@$(MAKE) --no-print-directory check BUILD=build-tsan SANITIZE=thread

# The short tests as on an aarch64 machine without SVE (AWS Graviton 2), by a cross compiler and qemu: WORD=text, those with that in their name.
aarch64 = $(CURDIR)/build-aarch64
check-aarch64: setup
	@tools/setup.sh --aarch64
	@tools/sysroot.sh arm64 $(aarch64)/sysroot
	@$(MAKE) --no-print-directory $(aarch64)/build.ninja BUILD=$(aarch64) \
	    CMAKE_FLAGS='$(CMAKE_FLAGS) -DCMAKE_TOOLCHAIN_FILE=cmake/aarch64-linux-gnu.cmake -DCMAKE_SYSROOT=$(aarch64)/sysroot'
	@ninja -C $(aarch64) -j $(JOBS) --quiet all tests-short
	@TEST_EMULATOR='qemu-aarch64 -cpu neoverse-n1 -L $(aarch64)/sysroot' tools/run-tests.sh $(aarch64) short $(WORD)

# The tests of the Python package (python/README.md). PYTHON=path: a Python of yours instead of an environment in the build folder;
# WITH="torch transformers": what that environment has besides NumPy.
check-python:
	@WITH='$(WITH)' PYTHON='$(PYTHON)' tools/check-python.sh $(BUILD)

# A wheel of the Python package in build-RELEASE/wheel, with the program and its libraries inside, and a check of it in an empty environment.
# RELEASE is the oldest release of Debian that it is for: what is compiled sees that release's C library and libraries.
RELEASE ?= bullseye
release = $(CURDIR)/build-$(RELEASE)
wheel: setup
	@tools/sysroot.sh "$$(dpkg --print-architecture)" $(release)/sysroot $(RELEASE)
	@$(MAKE) --no-print-directory $(release)/build.ninja BUILD=$(release) \
	    CMAKE_FLAGS='$(CMAKE_FLAGS) -DCMAKE_TOOLCHAIN_FILE=cmake/release.cmake -DCMAKE_SYSROOT=$(release)/sysroot'
	@ninja -C $(release) -j $(JOBS) --quiet longspan_cli longspan_shared
	@rm -rf $(release)/wheel
	@tools/make-wheel.py $(release) $(release)/wheel
	@tools/check-wheel.sh $(release)/wheel/*.whl

# Every call of a training that changes a file fails once by each error, and is where a process is killed: some 1,750 cases, half a second each on
# two idle cores; interrupted, it goes on where it was.
check-faults: setup
	@$(MAKE) --no-print-directory all
	@ninja -C $(BUILD) -j $(JOBS) --quiet ls_faults
	@tools/check-faults.sh $(BUILD)

# The kernels of src/kernel/cuda, by nvcc.
cuda: setup $(BUILD)/build.ninja
	@ninja -C $(BUILD) -j $(JOBS) --quiet cuda

# Every reader of files, for FUZZ_SECONDS of the processor each (TARGET=name: that one), under ASan and UBSan: tests/fuzz/README.md.
fuzz: setup
	@tools/setup.sh --fuzz
	@$(MAKE) --no-print-directory build-fuzz/build.ninja BUILD=build-fuzz SANITIZE=address,undefined \
	    CMAKE_FLAGS='$(CMAKE_FLAGS) -DCMAKE_C_COMPILER=clang -DLONGSPAN_FUZZ=ON'
	@ninja -C build-fuzz -j $(JOBS) --quiet longspan-fuzz
	@tools/fuzz.sh build-fuzz $(FUZZ_SECONDS) $(TARGET)

bench: setup
	@$(MAKE) --no-print-directory all
	@ninja -C $(BUILD) -j $(JOBS) --quiet bench-programs
	@tools/run-bench.sh $(BUILD) $(WORD)

bench-peers: setup
	@$(MAKE) --no-print-directory all
	@ninja -C $(BUILD) -j $(JOBS) --quiet bench-peers-programs
	@WORD='$(WORD)' SIZE='$(SIZE)' ROUNDS='$(ROUNDS)' THREADS='$(THREADS)' PEERS='$(PEERS)' ISA='$(ISA)' PYTHON='$(PYTHON)' \
	    bench/peers/run.py $(BUILD)

install: all
	@cmake --install $(BUILD) --prefix $(PREFIX)

format:
	@find src include tests bench examples -name '*.[ch]' -o -name '*.cu' 2>/dev/null | xargs clang-format -i

lint: setup
	@tools/setup.sh --lint
	@$(MAKE) --no-print-directory $(BUILD)/build.ninja
	@tools/lint.sh $(BUILD) $(JOBS)

clean:
	@rm -rf build build-asan build-ubsan build-tsan build-fuzz build-aarch64 build-$(RELEASE)
