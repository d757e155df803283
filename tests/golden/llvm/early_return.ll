declare void @llvm.masked.store.v16f32.p0(<16 x float>, ptr, i32, <16 x i1>)
declare i64 @llvm.smin.i64(i64, i64)
declare <8 x float> @llvm.masked.load.v8f32.p0(ptr, i32, <8 x i1>, <8 x float>)
declare void @llvm.masked.store.v8f32.p0(<8 x float>, ptr, i32, <8 x i1>)
define void @jaxwarp_early_return(ptr %buffers, ptr %geometry, i64 %row_begin, i64 %row_end, i64 %col_begin, i64 %col_end) #0 {
entry:
  %last_chunk = sub i64 %col_end, 16
  %p0.at = getelementptr ptr, ptr %buffers, i64 0
  %p0 = load ptr, ptr %p0.at, align 8, !invariant.load !0
  %p1.at = getelementptr ptr, ptr %buffers, i64 1
  %p1 = load ptr, ptr %p1.at, align 8, !invariant.load !0
  %v1 = icmp slt i64 %row_begin, %row_end
  %v2 = icmp sle i64 %col_begin, %last_chunk
  br i1 %v1, label %row, label %end
row:
  br i1 %v2, label %full, label %rest
full:
  br label %chunk
chunk:
  %v3 = phi i64 [ %col_begin, %full ], [ %v37, %off15 ]
  %v4 = trunc nuw nsw i64 %v3 to i32
  %v5 = getelementptr float, ptr %p0, i64 %v3
  %v6 = load <16 x float>, ptr %v5, align 4
  %v7 = fcmp olt <16 x float> %v6, splat (float 0xBFF0000000000000)
  %v10 = bitcast <16 x i1> %v7 to i16
  %v11 = icmp ne i16 %v10, 0
  br i1 %v11, label %on8, label %off9
on8:
  %v12 = getelementptr float, ptr %p1, i64 %v3
  call void @llvm.masked.store.v16f32.p0(<16 x float> splat (float 0xBFF0000000000000), ptr %v12, i32 4, <16 x i1> %v7)
  br label %off9
off9:
  %v13 = xor <16 x i1> %v7, splat (i1 true)
  %v16 = bitcast <16 x i1> %v13 to i16
  %v17 = icmp ne i16 %v16, 0
  br i1 %v17, label %on14, label %off15
on14:
  %v18 = fcmp ogt <16 x float> %v6, splat (float 0x3FF0000000000000)
  %v19 = select <16 x i1> %v13, <16 x i1> %v18, <16 x i1> splat (i1 false)
  %v22 = bitcast <16 x i1> %v19 to i16
  %v23 = icmp ne i16 %v22, 0
  br i1 %v23, label %on20, label %off21
on20:
  %v24 = getelementptr float, ptr %p1, i64 %v3
  call void @llvm.masked.store.v16f32.p0(<16 x float> splat (float 0x3FF0000000000000), ptr %v24, i32 4, <16 x i1> %v19)
  br label %off21
off21:
  %v25 = xor <16 x i1> %v18, splat (i1 true)
  %v26 = select <16 x i1> %v13, <16 x i1> %v25, <16 x i1> splat (i1 false)
  %v29 = bitcast <16 x i1> %v26 to i16
  %v30 = icmp ne i16 %v29, 0
  br i1 %v30, label %on27, label %off28
on27:
  %v31 = fcmp ogt <16 x float> %v6, splat (float 0x3FE0000000000000)
  %v32 = fmul <16 x float> %v6, %v6
  %v33 = fadd <16 x float> %v6, splat (float 0x4008000000000000)
  %v34 = select <16 x i1> %v31, <16 x float> %v32, <16 x float> %v33
  %v35 = getelementptr float, ptr %p1, i64 %v3
  call void @llvm.masked.store.v16f32.p0(<16 x float> %v34, ptr %v35, i32 4, <16 x i1> %v26)
  br label %off28
off28:
  br label %off15
off15:
  %v36 = add i64 %v3, 16
  %v37 = call i64 asm "", "=r,0"(i64 %v36)
  %v38 = icmp sle i64 %v37, %last_chunk
  br i1 %v38, label %chunk, label %rest, !llvm.loop !1
rest:
  %v39 = phi i64 [ %col_begin, %row ], [ %v37, %off15 ]
  %v40 = icmp slt i64 %v39, %col_end
  br i1 %v40, label %partial, label %past
partial:
  br label %part
part:
  %v41 = phi i64 [ %v39, %partial ], [ %v83, %off62 ]
  %v42 = sub i64 %col_end, %v41
  %v43 = call i64 @llvm.smin.i64(i64 %v42, i64 8)
  %v44 = trunc i64 %v43 to i32
  %v45 = insertelement <8 x i32> poison, i32 %v44, i32 0
  %v46 = shufflevector <8 x i32> %v45, <8 x i32> poison, <8 x i32> zeroinitializer
  %v47 = icmp ult <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>, %v46
  %v48 = trunc nuw nsw i64 %v41 to i32
  %v49 = getelementptr float, ptr %p0, i64 %v41
  %v50 = call <8 x float> @llvm.masked.load.v8f32.p0(ptr %v49, i32 4, <8 x i1> %v47, <8 x float> zeroinitializer)
  %v51 = freeze <8 x float> %v50
  %v52 = fcmp olt <8 x float> %v51, splat (float 0xBFF0000000000000)
  %v53 = select <8 x i1> %v47, <8 x i1> %v52, <8 x i1> splat (i1 false)
  %v56 = bitcast <8 x i1> %v53 to i8
  %v57 = icmp ne i8 %v56, 0
  br i1 %v57, label %on54, label %off55
on54:
  %v58 = getelementptr float, ptr %p1, i64 %v41
  call void @llvm.masked.store.v8f32.p0(<8 x float> splat (float 0xBFF0000000000000), ptr %v58, i32 4, <8 x i1> %v53)
  br label %off55
off55:
  %v59 = xor <8 x i1> %v52, splat (i1 true)
  %v60 = select <8 x i1> %v47, <8 x i1> %v59, <8 x i1> splat (i1 false)
  %v63 = bitcast <8 x i1> %v60 to i8
  %v64 = icmp ne i8 %v63, 0
  br i1 %v64, label %on61, label %off62
on61:
  %v65 = fcmp ogt <8 x float> %v51, splat (float 0x3FF0000000000000)
  %v66 = select <8 x i1> %v60, <8 x i1> %v65, <8 x i1> splat (i1 false)
  %v69 = bitcast <8 x i1> %v66 to i8
  %v70 = icmp ne i8 %v69, 0
  br i1 %v70, label %on67, label %off68
on67:
  %v71 = getelementptr float, ptr %p1, i64 %v41
  call void @llvm.masked.store.v8f32.p0(<8 x float> splat (float 0x3FF0000000000000), ptr %v71, i32 4, <8 x i1> %v66)
  br label %off68
off68:
  %v72 = xor <8 x i1> %v65, splat (i1 true)
  %v73 = select <8 x i1> %v60, <8 x i1> %v72, <8 x i1> splat (i1 false)
  %v76 = bitcast <8 x i1> %v73 to i8
  %v77 = icmp ne i8 %v76, 0
  br i1 %v77, label %on74, label %off75
on74:
  %v78 = fcmp ogt <8 x float> %v51, splat (float 0x3FE0000000000000)
  %v79 = fmul <8 x float> %v51, %v51
  %v80 = fadd <8 x float> %v51, splat (float 0x4008000000000000)
  %v81 = select <8 x i1> %v78, <8 x float> %v79, <8 x float> %v80
  %v82 = getelementptr float, ptr %p1, i64 %v41
  call void @llvm.masked.store.v8f32.p0(<8 x float> %v81, ptr %v82, i32 4, <8 x i1> %v73)
  br label %off75
off75:
  br label %off62
off62:
  %v83 = add i64 %v41, 8
  %v84 = icmp slt i64 %v83, %col_end
  br i1 %v84, label %part, label %parts_done, !llvm.loop !1
parts_done:
  br label %past
past:
  br label %end
end:
  ret void
}
attributes #0 = { nounwind alignstack=64 }
attributes #1 = { nobuiltin nounwind willreturn memory(none) }
attributes #2 = { nounwind willreturn }
attributes #3 = { noinline cold nounwind willreturn memory(none) }

!0 = !{}
!1 = distinct !{!1, !2}
!2 = !{!"llvm.loop.unroll.disable"}
!3 = !{!"branch_weights", i32 1, i32 2000}
!4 = !{i32 1}
!5 = distinct !{!5, !6}
!6 = !{!"llvm.loop.unroll.runtime.disable"}
