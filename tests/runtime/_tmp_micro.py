import sys; sys.path.insert(0,"src"); sys.path.insert(0,".")
import torch, time, collections
import firesteel as fs
from firesteel.runtime.native.machine import machine
from firesteel.runtime.native.program import *
from firesteel.runtime.native import lowering, upgrade
torch.set_num_threads(1)
M=machine()
def best(f,n=200,r=200):
    b=1e9
    for _ in range(r):
        t=time.perf_counter()
        for _ in range(n): f()
        b=min(b,(time.perf_counter()-t)/n)
    return b*1e9
lin=torch.nn.Linear(4,4); mods={str(i):1 for i in range(150)}
def bench(name,op,arg,N=500):
    p=Program(1)
    base=best(lambda g=M.function(p,[],[]): g(arg))
    for _ in range(N): op(p)
    f=M.function(p,[],[])
    assert f(arg) is not None, name
    print(f"{name:20s} {(best(lambda: f(arg),20,100)-base)/N:7.2f} ns")
d=lin.__dict__
bench("instdict",lambda p:p.load(Op.INSTANCE_DICT,0),lin)
bench("type",lambda p:p.check(Op.TYPE,0,id(torch.nn.Linear)),lin)
k="_forward_hooks"
bench("item_empty",lambda p:p.check(Op.ITEM_EMPTY,0,p.keep(k),hash(k)),d)
k2="forward"
bench("missing",lambda p:p.check(Op.MISSING,0,p.keep(k2),hash(k2)),d)
k3="_parameters"
bench("item",lambda p:p.load(Op.ITEM,0,p.keep(k3),hash(k3)),d)
k4=str(100)
bench("item noninterned",lambda p:p.load(Op.ITEM,0,p.keep(k4),hash(k4)),mods)
w=lin.weight
facts=TensorFacts(torch.nn.Parameter,fs.torch_compat.dispatch_key_bits(w) if hasattr(fs,'torch_compat') else __import__('firesteel.torch_compat').torch_compat.dispatch_key_bits(w),(4,4),(4,1),(2,32,1),(1,0),True,True)
bench("tensor",lambda p:p.tensor(0,facts),w)
import dataclasses
bench("tensor no leaf",lambda p:p.tensor(0,dataclasses.replace(facts,is_leaf=None)),w)
from benchmarks.models import build
m,a,kw=build("local/mlp300")[:3]
fs.config.native_guards="always"
with torch.no_grad():
    cm=fs.compile(m,backend="eager"); cm(*a,**kw)
    comp=type(cm)._firesteel_compiler
    u=[u for us in comp.units.values() for u in us][0]
    e=u.entries[0]; nat=e.upgrade.native; args=(m,*a)
    print("native",best(lambda: nat(*args),50,100)/1e3,"us")
    print("empty graph entry")
    ins=nat(*args); 
    if len(ins)==2 and isinstance(ins[0],tuple): ins=ins[0]
    print(len(ins))
    src="def g(%s): return (a0,)"%",".join(f"a{i}" for i in range(len(ins))); ns={}; exec(src,ns); g=ns["g"]
    print("call 301 args", best(lambda: g(*ins),200,100)/1e3)
    for k_,v in list(e.function.__globals__.items()):
        if getattr(v,"__name__","")=="forward" : e.function.__globals__[k_]=g
    print("entry with empty graph",best(lambda: e.function(*args),50,100)/1e3); print("call with empty graph",best(lambda: cm(*a),50,100)/1e3)
print(collections.Counter(Op(r[0]).name for r in []))
